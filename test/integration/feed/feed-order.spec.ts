import assert from 'node:assert/strict';
import { afterAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { KEYS, senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { atDepth } from '../../support/depth.js';

const WRITERS = 16;
const WRITING_MS = atDepth({ fast: 2_000, all: 4_000 });
const PATIENCE_MS = 120_000;
const LEAST_KILLS = 4;
const TOPIC = 'one topic';

/** What makes an event of this test recognisable: its run, type and message. */
type Key = string;

interface FeedEvent {
  readonly cursor: string;
  readonly run_id: string;
  readonly type: string;
  readonly msg: string | number;
}

function keyOf({ run_id: run, type, msg }: Pick<FeedEvent, 'run_id' | 'type' | 'msg'>): Key {
  return `${run} ${type} ${msg}`;
}

/** What the writers know. */
class Writers {
  readonly runs = new Set<string>();
  readonly acknowledged = new Set<Key>();
  /** Answers other than 2xx, and answers that never came. */
  unanswered = 0;
  #stop = false;
  readonly #working: Promise<void>[];

  constructor(sends: readonly Send[]) {
    this.#working = Array.from({ length: WRITERS }, (_, n) => {
      const send = sends[n % sends.length];
      assert.ok(send);
      return this.#write(send);
    });
  }

  async stop(): Promise<void> {
    this.#stop = true;
    await Promise.all(this.#working);
  }

  /** Creates runs, notes events on them, and ends some of them in ways that record events of the service's own. */
  async #write(send: Send): Promise<void> {
    for (let serial = 0; !this.#stop; serial += 1) {
      const created = await attempt(() =>
        send('POST', '/runs', { body: { image: 'i', event_delivery: { topic: TOPIC } } }),
      );
      if (created?.status !== 201) {
        this.unanswered += 1;
        continue;
      }
      const run = String(created.body.id);
      this.runs.add(run);
      for (let n = 0; n < 8; n += 1) await this.#note(send, run, n);
      const end = serial % 2 === 0 ? 'cancel' : 'retry';
      const ended = await attempt(() => send('POST', `/runs/${run}/${end}`));
      if (ended?.status !== 200) this.unanswered += 1;
    }
  }

  async #note(send: Send, run: string, msg: number): Promise<void> {
    const answer = await attempt(() =>
      send('POST', `/runs/${run}/events`, {
        body: { type: 'NOTE', msg, payload: { filler: 'x'.repeat(100) } },
        headers: { Prefer: 'return=minimal' },
      }),
    );
    if (answer?.status === 204) this.acknowledged.add(keyOf({ run_id: run, type: 'NOTE', msg }));
    else this.unanswered += 1;
  }
}

/** A tailing reader that is killed now and then and resumes where it was. */
interface Tail {
  readonly events: readonly FeedEvent[];
  readonly kills: number;
  stop(): Promise<void>;
}

/** Tails by pages and long polls. */
function tailByPage(send: Send, url: string): Tail {
  const events: FeedEvent[] = [];
  let kills = 0;
  const stop = new AbortController();
  let turn = 0;
  const work = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const last = events.at(-1)?.cursor;
      const path = `/feed?topic=${encodeURIComponent(TOPIC)}&wait=1&limit=50${last === undefined ? '' : `&after=${last}`}`;
      turn += 1;
      if (turn % 7 === 0) {
        // A reader that dies after it has asked: it never saw the answer.
        kills += 1;
        await fetch(url + path, {
          headers: { 'X-API-Key': KEYS.client },
          signal: AbortSignal.timeout(5),
        }).catch(() => undefined);
        continue;
      }
      const page = await attempt(() => send('GET', path));
      if (page?.status === 200) events.push(...page.body.events);
      else await sleep(20);
    }
  };
  const working = work();
  return {
    events,
    get kills() {
      return kills;
    },
    stop: async () => {
      stop.abort();
      await working;
    },
  };
}

/** Tails by a stream. */
function tailByStream(url: string): Tail {
  const events: FeedEvent[] = [];
  let kills = 0;
  const stop = new AbortController();
  let last: string | undefined;
  const work = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const headers: Record<string, string> = last === undefined ? {} : { 'Last-Event-ID': last };
      let killed = false;
      const reader = await attempt(() =>
        EventStreamReader.open(
          url,
          `/feed/stream?topic=${encodeURIComponent(TOPIC)}`,
          { headers },
          ({ id, data }) => {
            if (killed) return;
            assert.equal(id, data.cursor);
            last = id;
            events.push(data);
          },
        ),
      );
      if (reader?.response.statusCode !== 200) {
        reader?.close();
        await sleep(20);
        continue;
      }
      const until = performance.now() + 300;
      while (!stop.signal.aborted && reader.ended === undefined && performance.now() < until) await sleep(10);
      killed = true;
      kills += 1;
      reader.close();
    }
  };
  const working = work();
  return {
    events,
    get kills() {
      return kills;
    },
    stop: async () => {
      stop.abort();
      await working;
    },
  };
}

async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch {
    return undefined;
  }
}

/** Ends a random connection of the database every 100 ms. */
function terminateConnections(url: string): { stop(): Promise<number> } {
  const stop = new AbortController();
  const work = async (): Promise<number> => {
    const client = new Client({ connectionString: url, application_name: 'terminator' });
    await client.connect();
    let ended = 0;
    while (!stop.signal.aborted) {
      const { rowCount } = await client.query(
        `select pg_terminate_backend(pid)
           from pg_stat_activity
          where datname = current_database()
            and application_name = 'longshore'
          order by random()
          limit 1`,
      );
      ended += rowCount ?? 0;
      await sleep(100);
    }
    await client.end();
    return ended;
  };
  const working = work();
  return {
    stop: () => {
      stop.abort();
      return working;
    },
  };
}

/** The whole feed, page by page from the start. */
async function readAll(send: Send): Promise<FeedEvent[]> {
  const events: FeedEvent[] = [];
  for (let more = true; more;) {
    const last = events.at(-1)?.cursor;
    const { status, body } = await send(
      'GET',
      `/feed?topic=${encodeURIComponent(TOPIC)}&limit=500${last === undefined ? '' : `&after=${last}`}`,
    );
    assert.equal(status, 200);
    events.push(...body.events);
    more = body.has_more;
  }
  return events;
}

/** Checks everything that the feed promises, against timelines and the writers' knowledge. */
async function check(database: TestDatabase, writers: Writers, feed: readonly FeedEvent[]): Promise<void> {
  const timelines = await database.dataSource.query<{ run_id: string; type: string; msg: string | number }[]>(
    `select e.run_id, e.type, e.msg
       from events e
       join runs r on r.id = e.run_id
      where r.topic = $1
      order by e.run_id, e.index`,
    [TOPIC],
  );
  const keys = feed.map(keyOf);
  assert.equal(new Set(keys).size, keys.length, 'no event twice');
  assert.equal(new Set(feed.map(({ cursor }) => cursor)).size, feed.length, 'no cursor twice');
  assert.deepEqual(new Set(keys), new Set(timelines.map(keyOf)), 'the feed holds what the timelines hold');
  for (const key of writers.acknowledged) assert.ok(keys.includes(key), `acknowledged: ${key}`);
  const byRun = (rows: readonly Pick<FeedEvent, 'run_id' | 'type' | 'msg'>[]): Map<string, Key[]> => {
    const runs = new Map<string, Key[]>();
    for (const row of rows) runs.set(row.run_id, [...(runs.get(row.run_id) ?? []), keyOf(row)]);
    return runs;
  };
  const expected = byRun(timelines);
  for (const [run, order] of byRun(feed)) assert.deepEqual(order, expected.get(run), `the order of ${run}`);
}

/** Lets the writers write for WRITING_MS, and longer on a slow machine: until every reader was killed often enough. */
async function writeDuring(writers: Writers, tails: readonly Tail[]): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  await sleep(WRITING_MS);
  while (tails.some(({ kills }) => kills < LEAST_KILLS) && performance.now() < deadline) await sleep(20);
  await writers.stop();
}

async function untilRead(tail: Tail, feed: readonly FeedEvent[]): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (tail.events.length < feed.length && performance.now() < deadline) await sleep(20);
  await tail.stop();
  assert.deepEqual(
    tail.events.map(({ cursor }) => cursor),
    feed.map(({ cursor }) => cursor),
  );
  assert.deepEqual(tail.events, feed);
}

describe('the feed under 16 writers in two processes', () => {
  let database: TestDatabase | undefined;
  let services: ServiceProcess[] = [];

  const start = async (): Promise<{
    database: TestDatabase;
    sends: [Send, Send];
    urls: [string, string];
  }> => {
    database = await openTestDatabase();
    const env = {
      DATABASE_URL: database.url,
      SERVICE_API_KEYS: Object.entries(KEYS)
        .map(([scope, key]) => `${scope}:${key}`)
        .join(','),
    };
    services = await Promise.all([startService({ env }), startService({ env })]);
    const [first, second] = services;
    assert.ok(first && second);
    return {
      database,
      sends: [senderTo(first.url), senderTo(second.url)],
      urls: [first.url, second.url],
    };
  };

  const stop = async (): Promise<void> => {
    for (const service of services.splice(0)) assert.equal(await service.stop(), 0, service.output);
    await database?.close();
    database = undefined;
  };

  afterAll(stop);

  test('shows every event once, in one order, to page and stream readers that are interrupted', async () => {
    const scene = await start();
    const [toFirst, toSecond] = scene.sends;
    const tails = [tailByPage(toFirst, scene.urls[0]), tailByStream(scene.urls[1])];
    const writers = new Writers(scene.sends);
    await writeDuring(writers, tails);
    const feed = await readAll(toSecond);
    await check(scene.database, writers, feed);
    for (const tail of tails) await untilRead(tail, feed);
    assert.equal(writers.unanswered, 0);
    assert.ok(writers.acknowledged.size > 100, `${writers.acknowledged.size} events`);
    for (const { kills } of tails) assert.ok(kills >= LEAST_KILLS, `${kills} kills`);
    await stop();
  });

  test('does so while database connections are terminated every 100 ms', async () => {
    const scene = await start();
    const [toFirst, toSecond] = scene.sends;
    const tails = [tailByPage(toFirst, scene.urls[0]), tailByStream(scene.urls[1])];
    const writers = new Writers(scene.sends);
    const terminator = terminateConnections(scene.database.url);
    await writeDuring(writers, tails);
    const ended = await terminator.stop();
    const feed = await readAll(toSecond);
    await check(scene.database, writers, feed);
    for (const tail of tails) await untilRead(tail, feed);
    assert.ok(ended > 10, `${ended} connections were cut`);
    assert.ok(writers.acknowledged.size > 100, `${writers.acknowledged.size} events`);
    await stop();
  });
});

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { senderTo, type Send } from '../app/test-app.js';

const EVENTS_A_RUN = 4;
const TOPICS = 3;

/** What the clients know of one run that was acknowledged. */
interface KnownRun {
  readonly marker: string;
  /** Unique payloads of acknowledged events. */
  readonly acknowledged: Set<string>;
}

/**
 * Clients that create runs and post events as fast as they are answered, whatever happens to the service, and remember
 * every answer. Nothing is ever sent twice, so an answer that is missing leaves its request a "maybe".
 */
export class RunLoad {
  /** Acknowledged runs by id. */
  readonly runs = new Map<string, KnownRun>();
  /** Markers and payloads whose requests were refused or had no answer. */
  readonly unanswered = new Set<string>();
  acknowledgedEvents = 0;
  private stopped = false;
  private serial = 0;
  private readonly clients: Promise<void>[];
  private send: Send;

  constructor(
    url: string,
    private readonly key: string,
    clients = 16,
    /** Wraps what the clients send with, so that somebody can look on. */
    private readonly watch: (send: Send) => Send = (send) => send,
  ) {
    this.send = watch(senderTo(url, key));
    this.clients = Array.from({ length: clients }, () => this.work());
    // An answer that should not be is reported by stop().
    for (const client of this.clients) client.catch(() => undefined);
  }

  /** Answers that the clients have got so far. */
  get acknowledged(): number {
    return this.runs.size + this.acknowledgedEvents;
  }

  /** Points the clients to another service. */
  redirect(url: string): void {
    this.send = this.watch(senderTo(url, this.key));
  }

  /** Lets the clients finish what they are doing. */
  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.all(this.clients);
  }

  private async work(): Promise<void> {
    while (!this.stopped) {
      const marker = this.unique();
      const topic = `topic-${this.serial % TOPICS}`;
      const body = { image: 'load', inputs: { marker }, event_delivery: { topic } };
      const answer = await this.ask('/runs', body, marker);
      if (answer === undefined) continue;
      const run: KnownRun = { marker, acknowledged: new Set() };
      const id = String(answer['id']);
      this.runs.set(id, run);
      for (let n = 0; n < EVENTS_A_RUN && !this.stopped; n += 1) {
        const mark = this.unique();
        const event = { type: 'NOTE', msg: n, payload: { mark } };
        if ((await this.ask(`/runs/${id}/events`, event, mark)) === undefined) continue;
        run.acknowledged.add(mark);
        this.acknowledgedEvents += 1;
      }
    }
  }

  private unique(): string {
    this.serial += 1;
    return `mark-${this.serial}`;
  }

  /** The body of a 2xx answer; undefined for any other outcome, after a breath. */
  private async ask(path: string, body: object, mark: string): Promise<Record<string, unknown> | undefined> {
    try {
      const answer = await this.send('POST', path, { body });
      if (answer.status < 300) return answer.body;
      assert.ok(answer.status >= 500, `${path} answered ${answer.status}: ${answer.text}`);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    this.unanswered.add(mark);
    await sleep(20);
    return undefined;
  }
}

interface EventRow {
  readonly run_id: string;
  readonly index: number;
  readonly mark: string;
}

/**
 * Compares what the database holds with what the clients were told: every acknowledged run and event is there exactly
 * once and nothing that nobody sent; timelines are dense from 0, feeds dense from 1, and each event of a run with a topic
 * stands on its feed once, in the run's order.
 * @throws AssertionError
 */
export async function assertNothingLost(load: RunLoad, databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await assertRuns(load, client);
    const events = await assertEvents(load, client);
    await assertFeed(events, client);
  } finally {
    await client.end();
  }
}

async function assertRuns(load: RunLoad, client: Client): Promise<void> {
  const { rows } = await client.query<{ id: string; marker: string; event_count: number }>(
    `select id, inputs->>'marker' as marker, event_count from runs where image = 'load'`,
  );
  const found = new Map(rows.map((row) => [row.id, row.marker]));
  for (const [id, { marker }] of load.runs) assert.equal(found.get(id), marker, `run ${id} was acknowledged`);
  assert.equal(new Set(found.values()).size, found.size, 'a run was created twice');
  for (const [id, marker] of found) {
    assert.ok(load.runs.has(id) || load.unanswered.has(marker), `nobody created run ${id} (${marker})`);
  }
}

async function assertEvents(load: RunLoad, client: Client): Promise<readonly EventRow[]> {
  const { rows } = await client.query<EventRow & { event_count: number }>(
    `select e.run_id, e.index, e.payload->>'mark' as mark, r.event_count
     from events e join runs r on r.id = e.run_id where r.image = 'load' order by e.run_id, e.index`,
  );
  const timelines = groupBy(rows, (row) => row.run_id);
  for (const [id, timeline] of timelines) {
    timeline.forEach((row, i) => assert.equal(row.index, i, `the timeline of run ${id} has a hole`));
    assert.equal(timeline[0]?.event_count, timeline.length, `run ${id} counts its events wrongly`);
  }
  const marks = rows.map((row) => row.mark);
  assert.equal(new Set(marks).size, marks.length, 'an event was recorded twice');
  for (const [id, { acknowledged }] of load.runs) {
    const timeline = new Set(timelines.get(id)?.map((row) => row.mark));
    for (const mark of acknowledged)
      assert.ok(timeline.has(mark), `event ${mark} of run ${id} was acknowledged`);
    for (const mark of timeline) {
      assert.ok(
        acknowledged.has(mark) || load.unanswered.has(mark),
        `nobody sent event ${mark} of run ${id}`,
      );
    }
  }
  return rows;
}

async function assertFeed(events: readonly EventRow[], client: Client): Promise<void> {
  const { rows } = await client.query<{ topic: string; position: string; entry: string; last: string }>(
    `select f.topic, f.position, f.run_id || ' ' || f.event_index as entry, t.last_position as last
     from feed_entries f join feed_topics t on t.topic = f.topic order by f.topic, f.position`,
  );
  for (const [topic, entries] of groupBy(rows, (row) => row.topic)) {
    entries.forEach((row, i) => assert.equal(Number(row.position), i + 1, `the feed ${topic} has a hole`));
    assert.equal(Number(entries[0]?.last), entries.length, `the feed ${topic} counts wrongly`);
  }
  const mirrored = rows.map((row) => row.entry);
  assert.deepEqual(
    mirrored.toSorted(),
    events.map(({ run_id, index }) => `${run_id} ${index}`).toSorted(),
    'feeds and timelines differ',
  );
  const next = new Map<string, number>();
  for (const entry of mirrored) {
    const [id = '', index] = entry.split(' ');
    assert.equal(Number(index), next.get(id) ?? 0, `the feed has events of run ${id} in another order`);
    next.set(id, Number(index) + 1);
  }
}

function groupBy<T>(rows: readonly T[], keyOf: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group === undefined) groups.set(keyOf(row), [row]);
    else group.push(row);
  }
  return groups;
}

import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import type { DataSource, QueryRunner } from 'typeorm';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { detectRestore } from '../../../src/database/failover/promotion-check.js';
import type { CommittedEvent } from '../../../src/runs/events/committed-event.js';
import { encodeEventCursor, FIRST_PLACE, RunEvents } from '../../../src/runs/run-events.js';
import { CommittedGroups } from '../../../src/runs/journal/committed-groups.js';
import { createOn, eventCommand, journalOn, openJournal } from '../../support/runs/journal.js';
import { atDepth } from '../../support/depth.js';
import { until } from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const ROUNDS = atDepth({ fast: 15, all: 60 });
const SLOW_ROUNDS = atDepth({ fast: 12, all: 40 });

const note = (msg: number) => eventCommand({ type: 'NOTE', msg });

function eventsOf(dataSource: DataSource): RunEvents {
  return new RunEvents(dataSource, new CommittedGroups());
}

const keyOf = ({ run_id, index }: CommittedEvent): string => `${run_id} ${index}`;

/** Follows all events from a cursor on, in pages of any size. */
class Tail {
  readonly seen: CommittedEvent[] = [];
  #cursor: string | null;

  constructor(
    private readonly events: RunEvents,
    cursor: string | null = null,
  ) {
    this.#cursor = cursor;
  }

  get cursor(): string | null {
    return this.#cursor;
  }

  /** Reads one page. @returns whether more can be read already */
  async next(limit = 1 + Math.floor(Math.random() * 20)): Promise<boolean> {
    const page = await this.events.read(this.#cursor, limit);
    assert.ok(page.events.length <= limit);
    this.seen.push(...page.events);
    this.#cursor = page.next_cursor;
    return page.has_more;
  }

  /** Reads on until it has seen so many events: transactions of any database of the cluster may delay them. */
  async reach(count: number): Promise<readonly CommittedEvent[]> {
    await until(async () => {
      await this.next();
      return this.seen.length >= count;
    }, `${count} events`);
    assert.equal(this.seen.length, count);
    return this.seen;
  }
}

/** Opens a transaction, with an id that later transactions exceed. */
async function begin(source: DataSource): Promise<QueryRunner> {
  const runner = source.createQueryRunner();
  await runner.startTransaction();
  await execute(runner, 'select pg_current_xact_id()');
  return runner;
}

/** Appends the next event of a run once it has the lock of the run, as a group of the journal does. */
async function append(runner: QueryRunner, runId: string): Promise<void> {
  await execute(runner, 'update runs set event_count = event_count + 1 where id = $1', [runId]);
  await execute(
    runner,
    `insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
     select id, event_count - 1, attempt, 'NOTE', state, now(), '0', '{}', 3
       from runs
      where id = $1`,
    [runId],
  );
}

/** Creates a run with an event for each message. */
async function say({ dataSource }: TestDatabase, ...messages: readonly number[]): Promise<void> {
  const { journal } = journalOn(dataSource);
  const { id } = await createOn(journal);
  for (const msg of messages) await journal.change(id, note(msg));
}

/** The messages behind a cursor, and the cursor behind them. */
async function read({ dataSource }: TestDatabase, count: number, after: string | null = null) {
  const tail = new Tail(eventsOf(dataSource), after);
  const seen = await tail.reach(count);
  return { said: seen.map(({ msg }) => msg), cursor: tail.cursor };
}

describe('RunEvents.read', () => {
  let database: TestDatabase;
  let events: RunEvents;

  beforeEach(async () => {
    database = await openTestDatabase();
    events = eventsOf(database.dataSource);
  });
  afterEach(() => database.close());

  it('shows tailing readers every event once, in the order of each run, while processes commit in any order', async () => {
    const sources = await Promise.all([1, 2, 3].map(() => database.open(3)));
    const journals = await Promise.all(
      sources.map(async () => journalOn(await openJournal(database)).journal),
    );
    const [first] = journals;
    assert.ok(first);
    const runs = await Promise.all(Array.from({ length: 6 }, async () => (await createOn(first)).id));
    const journalWriters = journals.map(async (journal) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        await Promise.all(runs.map((run) => journal.change(run, note(round))));
      }
    });
    // Their ids are older than those of many groups that commit before them.
    const slowWriters = sources.map(async (source, n) => {
      for (let round = 0; round < SLOW_ROUNDS; round += 1) {
        const runner = await begin(source);
        await execute(runner, 'select pg_sleep(random() / 100)');
        await append(runner, runs[(round + n) % runs.length] ?? '');
        await (round % 4 === 0 ? runner.rollbackTransaction() : runner.commitTransaction());
        await runner.release();
      }
    });
    const writing = new AbortController();
    const tails = sources.map((source) => new Tail(eventsOf(source)));
    const reading = tails.map(async (tail) => {
      do await tail.next();
      while (!writing.signal.aborted);
    });
    await Promise.all([...journalWriters, ...slowWriters]).finally(() => writing.abort());
    await Promise.all(reading);
    const timelines = await rows<{ run_id: string; index: number }>(
      database.dataSource,
      'select run_id, index from events order by run_id, index',
    );
    assert.equal(timelines.length, 3 * ROUNDS * runs.length + (3 * SLOW_ROUNDS * 3) / 4);
    const again = await new Tail(events).reach(timelines.length);
    for (const tail of tails) assert.deepEqual(await tail.reach(timelines.length), again);
    assert.equal(new Set(again.map(keyOf)).size, timelines.length);
    for (const run of runs) {
      assert.deepEqual(
        again.filter(({ run_id }) => run_id === run).map(({ index }) => index),
        timelines.filter(({ run_id }) => run_id === run).map(({ index }) => index),
      );
    }
  });

  it('holds events back while an older transaction may still add some, and keeps the order of a run that it adds to', async () => {
    const { journal } = journalOn(database.dataSource);
    const { id } = await createOn(journal);
    const older = await begin(database.dataSource);
    await journal.change(id, note(0));
    const tail = new Tail(events);
    assert.equal(await tail.next(), false);
    assert.deepEqual([tail.seen, tail.cursor], [[], null]);
    await append(older, id);
    await older.commitTransaction();
    await older.release();
    assert.deepEqual(
      (await tail.reach(2)).map(({ index, msg }) => [index, msg]),
      [
        [0, 0],
        [1, 0],
      ],
    );
  });

  it('goes on behind events that retention has removed, and ends a page at 4 MB', async () => {
    const { journal } = journalOn(database.dataSource);
    const { id } = await createOn(journal);
    const text = 'x'.repeat(1_500_000);
    for (const n of [0, 1, 2, 3]) {
      await journal.change(id, eventCommand({ type: 'NOTE', msg: n, payload: { text } }));
    }
    await new Tail(events).reach(4);
    const page = await events.read(null, 500);
    assert.deepEqual([page.events.length, page.has_more], [3, true]);
    await execute(database.dataSource, 'delete from events where index < 3');
    const rest = await events.read(page.next_cursor, 500);
    assert.deepEqual([rest.events.map(({ index }) => index), rest.has_more], [[3], false]);
    const last = await events.read(rest.next_cursor, 500);
    assert.deepEqual(last, { events: [], next_cursor: rest.next_cursor, has_more: false });
  });

  it('refuses texts that are no cursor, and limits out of range', async () => {
    const { journal } = journalOn(database.dataSource);
    await journal.change((await createOn(journal)).id, note(0));
    const tail = new Tail(events);
    await tail.reach(1);
    const cursor = tail.cursor ?? assert.fail();
    const bytes = Buffer.from(cursor, 'base64url');
    const otherEpoch = Buffer.from(bytes);
    otherEpoch[0] = 1;
    const negative = Buffer.from(bytes);
    negative[0] = 255;
    const wrong = [
      '',
      'x',
      `${cursor}x`,
      cursor.slice(1),
      `${cursor.slice(0, -1)}_`,
      otherEpoch.toString('base64url'),
      negative.toString('base64url'),
      `${cursor}AAAAAAAA`,
    ];
    for (const text of wrong)
      await assert.rejects(events.read(text, 1), /^InvalidRequest: Malformed cursor$/);
    for (const limit of [0, 501, 1.5, Number.NaN])
      await assert.rejects(events.read(null, limit), /limit must be/);
  });
});

describe('RunEvents.read after the database was restored', () => {
  const databases: TestDatabase[] = [];

  afterEach(() => Promise.all(databases.splice(0).map((database) => database.close())));

  async function open(copyOf?: TestDatabase): Promise<TestDatabase> {
    if (copyOf?.dataSource.isInitialized) await copyOf.dataSource.destroy();
    const database = await openTestDatabase(copyOf ? { copyOf: copyOf.url } : {});
    databases.push(database);
    await detectRestore(database.dataSource);
    return database;
  }

  it('reads on behind the end of the backup, however far the ids of transactions were before', async () => {
    const first = await open();
    await say(first, 1, 2);
    await execute(first.dataSource, 'update events set commit_order = commit_order + 1000000000');
    const restored = await open(first);
    const { said, cursor } = await read(restored, 2);
    assert.deepEqual(said, [1, 2]);
    const place = { commitOrder: '2000000000', runId: FIRST_PLACE.runId, index: 0 };
    const aheadOfBackup = encodeEventCursor(place, null);
    await say(restored, 3, 4);
    const behind = await read(restored, 2, cursor);
    assert.deepEqual(behind.said, [3, 4]);
    assert.deepEqual((await read(restored, 2, aheadOfBackup)).said, [3, 4]);
    const again = await open(restored);
    await say(again, 5);
    assert.deepEqual((await read(again, 1, behind.cursor)).said, [5]);
    assert.deepEqual((await read(again, 3, cursor)).said, [3, 4, 5]);
  });

  it('begins with the oldest event for a cursor of another restore of the same backup', async () => {
    const first = await open();
    await say(first, 1, 2);
    const { cursor } = await read(first, 2);
    const one = await open(first);
    await say(one, 3);
    const ofOne = (await read(one, 3)).cursor;
    const other = await open(first);
    await say(other, 4);
    assert.deepEqual((await read(other, 3, ofOne)).said, [1, 2, 4]);
    assert.deepEqual((await read(other, 1, cursor)).said, [4]);
  });
});

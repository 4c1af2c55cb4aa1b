import 'reflect-metadata';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, test } from 'vitest';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { FeedMetrics } from '../../../src/feed/feed-metrics.js';
import { FeedRepository } from '../../../src/feed/feed.repository.js';
import { FeedRetention } from '../../../src/feed/feed-retention.js';
import { rows } from '../../../src/database/sql/sql.js';
import { DependencyRepository } from '../../../src/groups/ends/dependency.repository.js';
import { EVENTS_PER_BATCH, RUNS_PER_BATCH, RunRetention } from '../../../src/runs/run-retention.job.js';
import { RunCountsRepository } from '../../../src/runs/counts/run-counts.repository.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { changeOn, createOn, eventCommand, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const DAY = 86_400_000;
const NOW = new Date('2100-06-15T12:00:00.000Z');

const cancel = eventCommand({ type: 'CANCELLED', msg: '' });
const retry = (): ReturnType<typeof eventCommand> =>
  eventCommand({ type: 'RETRIED', msg: '', payload: { force: true } });

describe('the retention of runs', () => {
  const database = useTestDatabase();
  let journal: RunJournal;

  beforeAll(() => {
    ({ journal } = journalOn(database.dataSource));
  });
  afterEach(() =>
    database.dataSource.query(
      'truncate runs, groups, group_terms, dependencies, dependency_ends, queue, run_timers, events, attempts, run_counts, feed_topics, feed_entries',
    ),
  );

  const retention = (days = 30, source: DataSource = database.dataSource): RunRetention =>
    new RunRetention(source, { runRetentionDays: days });

  /** A run of two attempts that was created and ended so many days before NOW. */
  async function ended(age: number, given: Partial<NewRun> = {}, createdAge = age): Promise<string> {
    const { id } = await createOn(journal, given);
    await changeOn(journal, id, retry());
    await changeOn(journal, id, cancel);
    await setTimes(id, age, createdAge);
    return id;
  }

  /** Writes over when the run was created, ended, and did everything that its timeline and feed tell of. */
  async function setTimes(id: string, age: number, createdAge: number): Promise<void> {
    const at = new Date(NOW.getTime() - age * DAY).toISOString();
    const createdAt = new Date(NOW.getTime() - createdAge * DAY).toISOString();
    const { dataSource } = database;
    await dataSource.query('update runs set finished_at = $2, created_at = $3 where id = $1', [
      id,
      at,
      createdAt,
    ]);
    await dataSource.query('update events set t = $2 where run_id = $1', [id, at]);
    await dataSource.query('update feed_entries set recorded_at = $2 where run_id = $1', [id, at]);
    await dataSource.query(
      `update feed_topics t set oldest_at = f.recorded_at
         from feed_entries f where f.topic = t.topic and f.position = t.first_position`,
    );
  }

  const kept = async (): Promise<string[]> =>
    (await rows<{ id: string }>(database.dataSource, 'select id from runs order by id')).map(({ id }) => id);

  async function rowsOf(id: string): Promise<number> {
    const [found] = await rows<{ count: number }>(
      database.dataSource,
      `select ((select count(*) from runs where id = $1)
             + (select count(*) from events where run_id = $1)
             + (select count(*) from attempts where run_id = $1))::integer as count`,
      [id],
    );
    return found?.count ?? -1;
  }

  const feed = (topic: string): ReturnType<FeedRepository['list']> =>
    new FeedRepository({ feedEnabled: true }).list(database.dataSource, {
      topic,
      after: null,
      epoch: null,
      limit: 100,
      maxBytes: 1e6,
    });

  /** Waits until the work is over, or a statement waits for a lock. */
  async function untilDoneOrBlocked(work: Promise<unknown>): Promise<void> {
    const done = work.then(() => true);
    while (!(await Promise.race([done, Promise.resolve(false)]))) {
      const blocked = await rows<object>(
        database.dataSource,
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      if (blocked.length > 0) return;
    }
  }

  async function assertCounted(): Promise<void> {
    const { states } = await new RunCountsRepository().read(database.dataSource, 1);
    const found = await rows<{ state: string; count: number }>(
      database.dataSource,
      'select state, count(*)::integer as count from runs group by state',
    );
    const counted = Object.fromEntries(found.map(({ state, count }) => [state, count]));
    for (const [state, count] of Object.entries(states)) assert.equal(count, counted[state] ?? 0, state);
  }

  test('removes what ended longer ago, with attempts and timeline, and counts it out', async () => {
    const old = await ended(31);
    const young = await ended(29);
    const longLived = await ended(29, {}, 400);
    const pending = (await createOn(journal)).id;
    await database.dataSource.query(`update runs set created_at = '2000-01-01' where id = $1`, [pending]);
    assert.ok((await rowsOf(old)) > 3);
    assert.equal(await retention().runOnce(NOW), 1);
    assert.equal(await rowsOf(old), 0);
    assert.deepEqual(await kept(), [young, longLived, pending].toSorted());
    await assertCounted();
    assert.equal(await retention().runOnce(NOW), 0);
  });

  test('keeps everything when it is 0 days', async () => {
    const old = await ended(30_000);
    assert.equal(await retention(0).runOnce(NOW), 0);
    assert.deepEqual(await kept(), [old]);
  });

  test('keeps the members of a group until it ended long ago, and removes it with them and what it waited for', async () => {
    const { dataSource } = database;
    const groupId = randomUUID();
    const created = new Date(NOW.getTime() - 99 * DAY).toISOString();
    await dataSource.query(
      `insert into groups (id, on_failure, size, created_at, updated_at) values ($1, 'cancel_group', 2, $2, $2)`,
      [groupId, created],
    );
    await dataSource.query(
      `insert into dependencies (child_group, parent_id, is_group, need, since) values ($1, $1, true, 'ended', 1)`,
      [groupId],
    );
    const first = await ended(31, { groupId });
    const { id: last } = await createOn(journal, { groupId });
    assert.equal(await retention().runOnce(NOW), 0, 'a member has not ended');
    await changeOn(journal, last, cancel);
    for (const [age, removed] of [
      [29, 0],
      [31, 2],
    ] as const) {
      await setTimes(last, age, 99);
      await dataSource.query('update groups set ended_at = $1', [
        new Date(NOW.getTime() - age * DAY).toISOString(),
      ]);
      assert.equal(await retention().runOnce(NOW), removed);
      assert.deepEqual(await kept(), removed === 0 ? [first, last].toSorted() : []);
    }
    const left = await rows(
      dataSource,
      'select id::text from groups union all select id::text from dependencies',
    );
    assert.deepEqual(left, []);
    await assertCounted();
  });

  test('leaves the end of a run that others wait for until they are told of it', async () => {
    const parent = await createOn(journal);
    const dependsOn = [{ parentId: parent.id, isGroup: false, need: 'ended' }] as const;
    const child = await createOn(journal, { dependsOn });
    await changeOn(journal, parent.id, cancel);
    await setTimes(parent.id, 31, 31);
    assert.equal(await retention().runOnce(NOW), 1);
    assert.deepEqual(await kept(), [child.id]);
    const ends = await new DependencyRepository(database.dataSource).listEnds();
    assert.deepEqual(
      ends.map((end) => [end.parentId, end.state, end.id === null ? null : end.childRun]),
      [[parent.id, 'CANCELLED', child.id]],
    );
  });

  test('keeps a run that was retried since, also when that happens while it looks', async () => {
    const id = await ended(31);
    await changeOn(journal, id, retry());
    assert.equal(await retention().runOnce(NOW), 0);
    await changeOn(journal, id, cancel);
    await setTimes(id, 31, 31);
    class Interrupted extends RunRetention {
      override async listEnded(
        ...given: Parameters<RunRetention['listEnded']>
      ): ReturnType<RunRetention['listEnded']> {
        const found = await super.listEnded(...given);
        if (found.length > 0) await changeOn(journal, id, retry());
        return found;
      }
    }
    const job = new Interrupted(database.dataSource, { runRetentionDays: 30 });
    assert.equal(await job.runOnce(NOW), 0);
    assert.deepEqual(await kept(), [id]);
    await assertCounted();
  });

  test('makes a retry that comes too late find no run', async () => {
    const id = await ended(31);
    let late: Promise<unknown> | undefined;
    class Retried extends RunRetention {
      override async remove(...given: Parameters<RunRetention['remove']>): Promise<void> {
        late = changeOn(journalOn(other).journal, id, retry()).catch((error: unknown) => error);
        await untilDoneOrBlocked(late);
        await super.remove(...given);
      }
    }
    const other = await database.open();
    const job = new Retried(database.dataSource, { runRetentionDays: 30 });
    assert.equal(await job.runOnce(NOW), 1);
    assert.match(String(await late), /not found/);
    assert.equal(await rowsOf(id), 0);
    await assertCounted();
  });

  test('keeps a run as long as its events are on a feed, and the feed is whole', async () => {
    const old = await ended(31, { topic: 't' });
    const other = await ended(31, { topic: 'u' });
    const none = await ended(31);
    assert.equal(await retention().runOnce(NOW), 1);
    assert.deepEqual(await kept(), [old, other].toSorted(), `${none} is on no feed`);
    assert.equal((await feed('t')).entries.length, 2);
    await feedRetention(7).runOnce(NOW);
    assert.equal(await retention().runOnce(NOW), 2);
    const { first, last, entries } = await feed('t');
    assert.deepEqual(
      { first, last, entries },
      { first: 3, last: 2, entries: [] },
      'cursors stay as they are',
    );
    await assertCounted();
  });

  test('keeps a run whose events come after younger ones, until they have left a feed that goes on', async () => {
    await ended(31 - 0.5 / 24, { topic: 't' });
    await ended(31, { topic: 't' });
    const last = await ended(1, { topic: 't' });
    assert.equal(await retention().runOnce(NOW), 0);
    await feedRetention(7).runOnce(NOW);
    assert.equal(await retention().runOnce(NOW), 2);
    assert.deepEqual(await kept(), [last]);
  });

  test('is not held up by runs that it has to keep', async () => {
    const held = await ended(99, { topic: 't' });
    await database.dataSource.query(
      `insert into runs
       select (json_populate_record(r, json_build_object('id', gen_random_uuid(), 'attempt_id', gen_random_uuid()))).*
         from runs r, generate_series(1, ${RUNS_PER_BATCH})
        where r.id = $1`,
      [held],
    );
    await database.dataSource.query(
      `insert into events
       select r.id, e.index, e.attempt, e.type, e.state, e.t, e.msg, e.payload, e.size
         from runs r, events e where e.run_id = $1 and r.id <> $1`,
      [held],
    );
    const free = await ended(31);
    assert.equal(await retention().runOnce(NOW), 1);
    assert.equal(await rowsOf(free), 0);
    assert.equal((await kept()).length, RUNS_PER_BATCH + 1);
  });

  test('removes a backlog in one pass, however many runs it has', async () => {
    const id = await ended(31);
    await database.dataSource.query(
      `insert into runs
       select (json_populate_record(r, json_build_object('id', gen_random_uuid(), 'attempt_id', gen_random_uuid()))).*
         from runs r, generate_series(1, ${3 * RUNS_PER_BATCH})
        where r.id = $1`,
      [id],
    );
    assert.equal(await retention().runOnce(NOW), 3 * RUNS_PER_BATCH + 1);
    assert.deepEqual(await kept(), []);
  });

  test('removes timelines of any length, a bounded number of entries by one statement', async () => {
    const long = await ended(40);
    const short = await ended(31);
    await database.dataSource.query(
      `insert into events
       select run_id, n, attempt, 'NOTE', state, t, msg, payload, size
         from events, generate_series(2, ${EVENTS_PER_BATCH + 10}) n
        where run_id = $1 and index = 0`,
      [long],
    );
    await database.dataSource.query('update runs set event_count = $2 where id = $1', [
      long,
      EVENTS_PER_BATCH + 11,
    ]);
    assert.equal(await retention().runOnce(NOW), 2);
    assert.equal(await rowsOf(long), 0);
    assert.equal(await rowsOf(short), 0);
  });

  test('removes each run once when processes do it at once', async () => {
    for (let n = 0; n < 20; n += 1) await ended(31 + n);
    const sources = [database.dataSource, await database.open(), await database.open()];
    const removed = await Promise.all(sources.map((source) => retention(30, source).runOnce(NOW)));
    assert.equal(
      removed.reduce((sum, count) => sum + count, 0),
      20,
    );
    assert.deepEqual(await kept(), []);
    await assertCounted();
  });

  test('ends between two batches when it is told to', async () => {
    await ended(31);
    assert.equal(await retention().runOnce(NOW, AbortSignal.abort()), 0);
    assert.equal((await kept()).length, 1);
  });

  test('covers every table whose rows belong to a run', async () => {
    const found = await rows<{ name: string }>(
      database.dataSource,
      `select distinct table_name as name
         from information_schema.columns
        where table_schema = 'public' and column_name = 'run_id'
        order by table_name`,
    );
    const goes = ['attempts', 'events'];
    const stays = ['audit_entries', 'idempotency_keys', 'schedule_fires'];
    const isGoneBefore = ['concurrency_slots', 'executions', 'feed_entries', 'queue', 'run_timers'];
    const goesByTrigger = ['run_log_removals', 'run_log_rows', 'run_logs', 'run_terms'];
    const goesWithObjects = ['artifact_uploads', 'artifacts', 'object_cleanups'];
    assert.deepEqual(
      found.map(({ name }) => name),
      [...goes, ...stays, ...isGoneBefore, ...goesByTrigger, ...goesWithObjects].toSorted(),
    );
  });

  function feedRetention(days: number): FeedRetention {
    return new FeedRetention(
      database.dataSource,
      loadSettings([], { SERVICE_FEED_RETENTION_DAYS: String(days) }),
      new FeedMetrics(new Registry()),
    );
  }
});

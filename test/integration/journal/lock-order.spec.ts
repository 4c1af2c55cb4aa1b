import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { rows } from '../../../src/database/sql/sql.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { RunRejected } from '../../../src/runs/run.errors.js';
import { claimOf, eventCommand, freshRun, journalOn, openJournal } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NOTE = eventCommand({ type: 'NOTE', msg: '' });
const RETRIED = eventCommand({ type: 'FAILED', msg: '' });
const END_ATTEMPT = `insert into attempts (run_id, attempt, id, state, progress, first_event, end_event, queued_at, finished_at, size)
  select id, attempt, gen_random_uuid(), 'FAILED', 0, 0, 0, now(), now(), 0
    from runs
   where id = $1`;
const ROUNDS = 6;
const TOPICS = Array.from({ length: 20 }, (_, i) => `topic-${i}`);

describe('what two processes lock', () => {
  const database = useTestDatabase();
  let sources: readonly [DataSource, DataSource];
  let journals: readonly [RunJournal, RunJournal];

  beforeAll(async () => {
    sources = [await openJournal(database), await openJournal(database)];
    journals = [journalOn(sources[0]).journal, journalOn(sources[1]).journal];
  });

  /** One run a topic. */
  async function createRuns(): Promise<NewRun[]> {
    const runs = TOPICS.map((topic) => freshRun({ topic, maxAttempts: 100 }));
    await Promise.all(runs.map((run) => journals[0].create(run)));
    return runs;
  }

  /**
   * Lets each process write to its runs in one group while somebody else holds a row in the middle of what both
   * need: they pile up before it in whatever order they take their locks, and then go on.
   * @returns how many commands were refused
   */
  async function pileUp(
    hold: string,
    value: string,
    groups: readonly [NewRun[], NewRun[]],
    command = NOTE,
  ): Promise<number> {
    const holder = database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query(hold, [value]);
    const writing = journals.flatMap((journal, i) =>
      (groups[i] ?? []).map(({ id }) => journal.change(id, command)),
    );
    for (let waiting = 0; waiting < 2;) {
      await sleep(10);
      const [answer] = await rows<{ n: number }>(
        database.dataSource,
        `select count(*)::integer as n
           from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
      );
      waiting = answer?.n ?? 0;
    }
    await holder.rollbackTransaction();
    await holder.release();
    const settled = await Promise.allSettled(writing);
    const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    for (const failure of failures) assert.ok(failure instanceof RunRejected, String(failure));
    return failures.length;
  }

  test('is taken in the order of the runs’ ids and of the topics: no deadlock ever has to be broken', async () => {
    const runs = await createRuns();
    const more = await createRuns();
    for (let round = 0; round < ROUNDS; round += 1) {
      const middle = runs[5 + round]?.id ?? '';
      const all: [NewRun[], NewRun[]] = [runs, runs.toReversed()];
      assert.equal(await pileUp('select 1 from runs where id = $1 for update', middle, all), 0);
      // One process ends the attempts, and the other one is told so.
      await journals[0].claim({ ...claimOf('worker'), max: TOPICS.length });
      const refused = await pileUp(END_ATTEMPT, middle, all, RETRIED);
      assert.equal(refused, TOPICS.length);
      const topic = TOPICS.toSorted()[5 + round] ?? '';
      const others: [NewRun[], NewRun[]] = [runs, more.toReversed()];
      assert.equal(await pileUp('select 1 from feed_topics where topic = $1 for update', topic, others), 0);
    }
    // A connection hands its counts over when it ends, at the latest.
    await Promise.all([...sources, database.dataSource].map((source) => source.destroy()));
    const watcher = await database.open(1);
    for (let others = 1; others > 0;) {
      await sleep(20);
      const [answer] = await rows<{ n: number }>(
        watcher,
        `select count(*)::integer as n
           from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
      );
      others = answer?.n ?? 0;
    }
    assert.deepEqual(
      await rows(
        watcher,
        'select deadlocks::integer as deadlocks from pg_stat_database where datname = current_database()',
      ),
      [{ deadlocks: 0 }],
    );
  });
});

import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { rows } from '../../../src/database/sql/sql.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { eventCommand, freshRun, journalOn } from '../../support/runs/journal.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const NOTE = eventCommand({ type: 'NOTE', msg: '' });
const ROUNDS = 6;
const TOPICS = Array.from({ length: 20 }, (_, i) => `topic-${i}`);

describe('what two processes lock', () => {
  let database: TestDatabase;
  let sources: readonly [DataSource, DataSource];
  let journals: readonly [RunJournal, RunJournal];

  beforeAll(async () => {
    database = await openTestDatabase({ entities: ENTITIES });
    const open = async () => new JournalDataSource(await database.open()).open();
    sources = [await open(), await open()];
    journals = [journalOn(sources[0]).journal, journalOn(sources[1]).journal];
  });
  afterAll(() => database.close());

  /** One run a topic. */
  async function createRuns(): Promise<NewRun[]> {
    const runs = TOPICS.map((topic) => freshRun({ topic }));
    await Promise.all(runs.map((run) => journals[0].create(run)));
    return runs;
  }

  /**
   * Lets each process write to its runs in one group while somebody else holds a row in the middle of what both
   * need: they pile up before it in whatever order they take their locks, and then go on.
   */
  async function pileUp(hold: string, value: string, groups: readonly [NewRun[], NewRun[]]): Promise<void> {
    const holder = database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query(hold, [value]);
    const writing = journals.flatMap((journal, i) =>
      (groups[i] ?? []).map(({ id }) => journal.change(id, NOTE)),
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
    await Promise.all(writing);
  }

  test('is taken in the order of the runs’ ids and of the topics: no deadlock ever has to be broken', async () => {
    const runs = await createRuns();
    const more = await createRuns();
    for (let round = 0; round < ROUNDS; round += 1) {
      const middle = runs[5 + round]?.id ?? '';
      await pileUp('select 1 from runs where id = $1 for update', middle, [runs, runs.toReversed()]);
      const topic = TOPICS.toSorted()[5 + round] ?? '';
      await pileUp('select 1 from feed_topics where topic = $1 for update', topic, [runs, more.toReversed()]);
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

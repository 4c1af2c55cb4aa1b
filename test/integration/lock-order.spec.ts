import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ENTITIES } from '../../src/database/entities/all.js';
import { rows } from '../../src/database/sql.js';
import { eventCommand, freshRun, journalOn } from '../support/journal.js';
import { openTestDatabase } from '../support/test-database.js';

const NOTE = eventCommand({ type: 'NOTE', msg: '' });

describe('locks of two processes', () => {
  test('are taken in one order, so that no deadlock has to be resolved by the database', async () => {
    const database = await openTestDatabase({ entities: ENTITIES });
    try {
      const sources = [await database.open(), await database.open()];
      const journals = sources.map((source) => journalOn(source).journal);
      const [first] = journals;
      assert.ok(first);
      const topics = ['a', 'b', 'c'];
      const runs = Array.from({ length: 30 }, (_, i) =>
        freshRun({ eventDelivery: { topic: topics[i % 3] ?? 'a' } }),
      );
      await Promise.all(runs.map((run) => first.create(run)));
      for (let round = 0; round < 25; round += 1) {
        const orders = [runs, runs.toReversed()];
        await Promise.all(
          journals.flatMap((journal, i) => (orders[i] ?? []).map(({ id }) => journal.change(id, NOTE))),
        );
      }
      // A connection hands its counts over when it ends, at the latest.
      await Promise.all(sources.map((source) => source.destroy()));
      let others = 1;
      while (others > 0) {
        await sleep(20);
        const [answer] = await rows<{ n: number }>(
          database.dataSource,
          `select count(*)::integer as n
             from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
        );
        others = answer?.n ?? 0;
      }
      assert.deepEqual(
        await rows(
          database.dataSource,
          'select deadlocks::integer as deadlocks from pg_stat_database where datname = current_database()',
        ),
        [{ deadlocks: 0 }],
      );
    } finally {
      await database.close();
    }
  });
});

import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { CountRuns1795000000008 } from '../../../migrations/008-count-runs.js';
import { MIGRATIONS } from '../../../migrations/all.js';
import { migrate } from '../../../src/database/migrate.js';
import { connectDatabase } from '../../../src/database/connections/connect.js';
import { RunCountsRepository } from '../../../src/runs/counts/run-counts.repository.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

describe('the migration that begins to count runs', () => {
  let database: TestDatabase;

  beforeAll(async () => {
    database = await openTestDatabase({
      migrations: MIGRATIONS.filter((migration) => migration !== CountRuns1795000000008),
    });
  });
  afterAll(() => database.close());

  test('counts the runs that there are, and what happened to them in the last hour', async () => {
    const states = ['PENDING', 'PENDING', 'COMPLETED', 'COMPLETED', 'COMPLETED', 'FAILED', 'CANCELLED'];
    for (const [n, state] of states.entries()) {
      const isOver = !['PENDING'].includes(state);
      await database.dataSource.query(
        `insert into runs (
           id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
           max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, created_at, updated_at,
           finished_at
         )
         values (gen_random_uuid(), $1, 0, 0, 1, gen_random_uuid(), 0, 0, 0, 0, 1, 'i', '{}', '{}', 0, 0, 0,
                 now(), now() - $2 * interval '1 hour', now(), case when $3 then now() - interval '5 minutes' end)`,
        [state, n, isOver],
      );
    }
    const source = await connectDatabase(
      { url: database.url, poolSize: 2, applicationName: 'test', entities: [], migrations: MIGRATIONS },
      { timeoutMs: 120_000 },
    );
    try {
      assert.deepEqual(await migrate(source), [CountRuns1795000000008.name]);
    } finally {
      await source.destroy();
    }
    const { states: counted, minutes } = await new RunCountsRepository().read(database.dataSource, 60);
    assert.deepEqual(counted, {
      PENDING: 2,
      ASSIGNED: 0,
      RUNNING: 0,
      COMPLETED: 3,
      FAILED: 1,
      CANCELLED: 1,
    });
    assert.equal(minutes.at(-1)?.created, 1, 'one of them was created just now');
    assert.deepEqual(
      minutes
        .filter(({ completed }) => completed > 0)
        .map(({ completed, failed, cancelled }) => [completed, failed, cancelled]),
      [[3, 1, 1]],
    );
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { v7 as uuidv7 } from 'uuid';
import { execute } from '../../../src/database/sql/sql.js';
import { MANUAL_RETRY } from '../../../src/runs/machine/run-event.js';
import type { ClaimingWorker } from '../../../src/runs/scheduling-strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { claimOf, createOn, journalOn, poolOf } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

function workerOf(id: string): ClaimingWorker {
  return { id, cpuCores: 1, ramMb: 1, gpus: [], tags: [], capabilities: [] };
}

describe('a claim with a choosing strategy', () => {
  const database = useTestDatabase();

  test('returns the current run, though another process changed it after the strategy read it', async () => {
    const other = journalOn(await database.open()).journal;
    // Whether the worker that a run is kept for can be reached is asked between listing and locking.
    const pool = poolOf(async (ids) => {
      if (!ids.includes('gone')) return new Map(ids.map((one) => [one, workerOf(one)]));
      await other.change(id, { type: 'event', event: MANUAL_RETRY, reporter: {} });
      return new Map();
    });
    const { journal } = journalOn(database.dataSource, { strategy: new FitStrategy(300), pool });
    const { id } = await createOn(journal);
    await execute(database.dataSource, `update queue set reserved_for = 'gone'`);
    const { runs } = await journal.claim(claimOf('w'));
    assert.deepEqual(
      runs.map(({ run }) => [run.id, run.attempt, run.eventCount]),
      [[id, 2, 1]],
    );
  });

  test('tries again when the same claim was served by another process after its key was looked up', async () => {
    const strategy = new FitStrategy(300);
    const claim = { ...claimOf('same'), idempotency: { scope: uuidv7(), requestHash: 'hash' } };
    const workers = new Map([['same', workerOf('same')]]);
    const other = journalOn(await database.open(), { strategy, pool: poolOf(() => workers) }).journal;
    const pool = poolOf(async () => {
      assert.equal((await other.claim(claim)).kind, 'served');
      return workers;
    });
    const { journal } = journalOn(database.dataSource, { strategy, pool });
    await execute(database.dataSource, 'delete from queue');
    const { id } = await createOn(journal, { cpu: 1 });
    assert.equal((await journal.claim(claim)).kind, 'contended');
    const again = await journal.claim(claim);
    assert.deepEqual([again.kind, again.runs.map(({ run }) => run.id)], ['replayed', [id]]);
  });
});

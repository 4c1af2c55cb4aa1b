import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { v7 as uuidv7 } from 'uuid';
import { execute } from '../../../src/database/sql/sql.js';
import { MANUAL_RETRY } from '../../../src/runs/machine/run-event.js';
import type { ClaimContext } from '../../../src/runs/scheduling-strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { createOn, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

describe('a claim with a choosing strategy', () => {
  const database = useTestDatabase();

  test('returns the current run, though another process changed it after the strategy read it', async () => {
    const { journal } = journalOn(database.dataSource);
    const other = journalOn(await database.open()).journal;
    const { id } = await createOn(journal);
    await execute(database.dataSource, `update queue set reserved_for = 'gone'`);
    const context: ClaimContext = {
      strategy: new FitStrategy(300),
      // Whether the worker that a run is kept for can be reached is asked between listing and locking.
      findClaiming: async (ids) => {
        if (ids.includes('gone')) {
          await other.change(id, { type: 'event', event: MANUAL_RETRY, reporter: {} });
          return new Map();
        }
        return new Map(
          ids.map((one) => [one, { id: one, cpuCores: 1, ramMb: 1, gpus: [], tags: [], capabilities: [] }]),
        );
      },
    };
    const { runs } = await journal.claim({ workerId: 'w', context, stillWanted: () => true });
    assert.deepEqual(
      runs.map(({ run }) => [run.id, run.attempt, run.eventCount]),
      [[id, 2, 1]],
    );
  });

  test('tries again when the same claim was served by another process after its key was looked up', async () => {
    const { journal } = journalOn(database.dataSource);
    const other = journalOn(await database.open()).journal;
    await execute(database.dataSource, 'delete from queue');
    const { id } = await createOn(journal, { cpu: 1 });
    const idempotency = { scope: uuidv7(), requestHash: 'hash' };
    const worker = { id: 'same', cpuCores: 1, ramMb: 1, gpus: [], tags: [], capabilities: [] };
    const strategy = new FitStrategy(300);
    const workers = new Map([[worker.id, worker]]);
    const claim = { workerId: worker.id, idempotency, stillWanted: () => true };
    const elsewhere: ClaimContext = {
      strategy,
      findClaiming: () => Promise.resolve(workers),
    };
    const context: ClaimContext = {
      strategy,
      findClaiming: async () => {
        const { kind } = await other.claim({ ...claim, context: elsewhere });
        assert.equal(kind, 'served');
        return workers;
      },
    };
    assert.equal((await journal.claim({ ...claim, context })).kind, 'contended');
    const again = await journal.claim({ ...claim, context });
    assert.deepEqual([again.kind, again.runs.map(({ run }) => run.id)], ['replayed', [id]]);
  });
});

import assert from 'node:assert/strict';
import { EntityManager } from 'typeorm';
import { it } from 'vitest';
import { lockRecords } from './batch-records.js';
import type { BatchLedger } from './command.js';

interface SeenRecord {
  readonly seen: readonly string[];
}

function makeLedger(): BatchLedger<SeenRecord> {
  return {
    lock: async (_tx, records) => new Set(records),
    seenBy: ({ seen }) => seen,
    write: async () => undefined,
  };
}

it('of batches of a commit that were decided by the same dependency, the first alone is carried out, whatever their ledgers', async () => {
  const [ends, retries] = [makeLedger(), makeLedger()];
  const [first, second, third] = [{ seen: ['1', '2'] }, { seen: ['2', '3'] }, { seen: ['3'] }];
  const batches = [
    { ledger: ends, record: first },
    { ledger: retries, record: second },
    { ledger: ends, record: third },
  ];
  const due = await lockRecords(Object.create(EntityManager.prototype), batches);
  assert.deepEqual(due, new Set([first, third]));
});

import type { EntityManager } from 'typeorm';
import { recordsOf, type Batch, type BatchLedger, type BatchRecord } from './command.js';

/** Locks the records of the batches of a commit. @returns those that are to be carried out */
export async function lockRecords(
  tx: EntityManager,
  batches: readonly Batch[],
): Promise<ReadonlySet<object>> {
  const all = batches.flatMap(recordsOf);
  const due = new Set<object>();
  for (const [ledger, records] of byLedger(all)) {
    for (const record of await ledger.lock(
      tx,
      records.map(({ record: given }) => given),
    ))
      due.add(record);
  }
  const seen = new Set<string>();
  for (const { ledger, record } of all) {
    const own = due.has(record) ? (ledger.seenBy?.(record) ?? []) : [];
    if (own.some((id) => seen.has(id))) due.delete(record);
    else for (const id of own) seen.add(id);
  }
  return due;
}

/** The records of each ledger. */
export function byLedger<T extends BatchRecord>(all: readonly T[]): ReadonlyMap<BatchLedger, readonly T[]> {
  const groups = new Map<BatchLedger, T[]>();
  for (const one of all) {
    const group = groups.get(one.ledger) ?? [];
    groups.set(one.ledger, group);
    group.push(one);
  }
  return groups;
}

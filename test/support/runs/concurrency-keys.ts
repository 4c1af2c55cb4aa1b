import assert from 'node:assert/strict';
import type { DataSource } from 'typeorm';
import { rows } from '../../../src/database/sql/sql.js';

interface StoredKey {
  readonly key: string;
  readonly counted: number;
  readonly executing: number;
}

interface StoredKind {
  readonly key: string;
  readonly limit: number;
  readonly executing: number;
  readonly admitted: number;
  readonly queued: number;
}

/**
 * Checks that the numbers of keys are those of their runs in execution and slots, and that of each kind of a key's runs as many are
 * admitted as there is room for, the first ones.
 */
export async function checkKeys(dataSource: DataSource): Promise<void> {
  const keys = await rows<StoredKey>(
    dataSource,
    `select r.concurrency_key as key,
            coalesce(max(k.executing), 0) as counted,
            (count(*) filter (where r.state in ('ASSIGNED', 'RUNNING'))
              + (select count(*) from concurrency_slots s where s.key = r.concurrency_key))::integer as executing
       from runs r
       left join concurrency_keys k on k.key = r.concurrency_key
      where r.concurrency_key is not null
      group by r.concurrency_key`,
  );
  for (const { key, counted, executing } of keys) assert.equal(counted, executing, `executing of ${key}`);
  const kinds = await rows<StoredKind>(
    dataSource,
    `select q.concurrency_key as key, q.concurrency_limit as limit, max(k.executing) as executing,
            (count(*) filter (where q.is_admitted))::integer as admitted, count(*)::integer as queued
       from queue q
       left join concurrency_keys k on k.key = q.concurrency_key
      where q.concurrency_key is not null
      group by q.concurrency_key, q.alike, q.concurrency_limit`,
  );
  for (const { key, limit, executing, admitted, queued } of kinds) {
    const room = Math.max(0, Math.min(limit - executing, 100));
    assert.equal(admitted, Math.min(room, queued), `admitted of ${key}: ${executing} of ${limit} execute`);
  }
}

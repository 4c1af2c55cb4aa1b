import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { IdempotencyRepository } from '../../../src/runs/idempotency/idempotency.repository.js';
import {
  IdempotencyRetentionJob,
  KEEP_KEYS_MS,
} from '../../../src/runs/idempotency/idempotency-retention.job.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NOW = new Date('2026-03-10T12:00:00.000Z');

describe('the retention of idempotency keys', () => {
  const database = useTestDatabase();

  beforeEach(() => database.dataSource.query('truncate idempotency_keys'));

  const jobOn = (dataSource = database.dataSource): IdempotencyRetentionJob =>
    new IdempotencyRetentionJob(dataSource, new IdempotencyRepository());

  /** Keys of an age in milliseconds, as seen at NOW. */
  const insert = (name: string, count: number, age: number): Promise<number> =>
    execute(
      database.dataSource,
      `insert into idempotency_keys (scope, request_hash, run_id, created_at)
       select $1::text || n, 'hash', gen_random_uuid(), $2::timestamptz
         from generate_series(1, $3::integer) as n`,
      [name, new Date(NOW.getTime() - age).toISOString(), count],
    );
  const kept = async (): Promise<string[]> =>
    (await rows<{ scope: string }>(database.dataSource, 'select scope from idempotency_keys order by 1')).map(
      ({ scope }) => scope,
    );

  test('removes what is older than 48 hours and keeps the rest, to the millisecond', async () => {
    assert.equal(KEEP_KEYS_MS, 48 * 3_600_000);
    await insert('older', 1, KEEP_KEYS_MS + 1);
    await insert('just', 1, KEEP_KEYS_MS);
    await insert('younger', 1, KEEP_KEYS_MS - 1);
    await insert('future', 1, -1000);
    assert.equal(await jobOn().runOnce(NOW), 1);
    assert.deepEqual(await kept(), ['future1', 'just1', 'younger1']);
    assert.equal(await jobOn().runOnce(NOW), 0);
    assert.equal(await jobOn().runOnce(new Date(NOW.getTime() + 1)), 1);
    assert.deepEqual(await kept(), ['future1', 'younger1']);
  });

  test('removes any number in one pass, a thousand at a time', async () => {
    const statements: number[] = [];
    class Watched extends IdempotencyRepository {
      override async removeBefore(
        ...args: Parameters<IdempotencyRepository['removeBefore']>
      ): Promise<number> {
        const removed = await super.removeBefore(...args);
        statements.push(removed);
        return removed;
      }
    }
    await insert('old', 2500, KEEP_KEYS_MS * 2);
    await insert('new', 10, 0);
    assert.equal(await new IdempotencyRetentionJob(database.dataSource, new Watched()).runOnce(NOW), 2500);
    assert.deepEqual(statements, [1000, 1000, 500]);
    assert.equal((await kept()).length, 10);
  });

  test('four processes at once remove each key once and hinder nobody', async () => {
    await insert('old', 6000, KEEP_KEYS_MS * 2);
    const sources = await Promise.all([1, 2, 3].map(() => database.open()));
    const removed = await Promise.all(
      [database.dataSource, ...sources].map((source) => jobOn(source).runOnce(NOW)),
    );
    assert.equal(
      removed.reduce((sum, n) => sum + n, 0),
      6000,
    );
    assert.deepEqual(await kept(), []);
  });

  test('passes over a key that is being used at the moment', async () => {
    await insert('old', 2, KEEP_KEYS_MS * 2);
    const user = database.dataSource.createQueryRunner();
    await user.startTransaction();
    const claim = { scope: 'old1', requestHash: 'other', runId: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b' };
    const counting = await new IdempotencyRepository().register(user.manager, [claim]);
    assert.equal(counting.get('old1')?.requestHash, 'hash');
    assert.equal(await jobOn().runOnce(NOW), 1);
    await user.commitTransaction();
    await user.release();
    assert.deepEqual(await kept(), ['old1']);
  });

  test('stops between two batches when it is told to', async () => {
    await insert('old', 3000, KEEP_KEYS_MS * 2);
    const stop = new AbortController();
    class Stopping extends IdempotencyRepository {
      override removeBefore(...args: Parameters<IdempotencyRepository['removeBefore']>): Promise<number> {
        stop.abort();
        return super.removeBefore(...args);
      }
    }
    const job = new IdempotencyRetentionJob(database.dataSource, new Stopping());
    assert.equal(await job.runOnce(NOW, stop.signal), 1000);
    assert.equal((await kept()).length, 2000);
  });
});

import assert from 'node:assert/strict';
import { afterAll, beforeAll, beforeEach, describe, test } from 'vitest';
import type { DataSource } from 'typeorm';
import { CommitNotices } from '../../../src/database/notices/commit-notices.js';
import { createLog } from '../../../src/common/logging/logger.js';
import {
  resetPoolOnFirstStart,
  type SharedWorkerPool,
} from '../../../src/workers/pool/shared-worker-pool.js';
import { TooManyHeartbeats } from '../../../src/workers/workers.errors.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { ADMIN, beat, letPass, sharedPoolOn } from '../../support/workers/worker-pools.js';

const TIMEOUT_MS = 60_000;

function poolOn(dataSource: DataSource, onWrite?: () => void): SharedWorkerPool {
  return sharedPoolOn(dataSource, TIMEOUT_MS, onWrite);
}

function idsOf(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `w${i}`);
}

describe('the shared worker pool', () => {
  let database: TestDatabase;
  let here: DataSource;
  let there: DataSource;

  beforeAll(async () => {
    database = await openTestDatabase();
    [here, there] = [await database.open(), await database.open()];
  });
  beforeEach(() => here.query('truncate worker_pool, worker_descriptions, worker_pool_epoch, worker_drains'));
  afterAll(() => database.close());

  test('combines reports that went to different processes', async () => {
    const [a, b] = [poolOn(here), poolOn(there)];
    const holdings = ['r', 's', 't'].map((runId) => ({ runId, workerId: 'w' }));
    await a.heartbeat(beat('w', ['r']));
    await b.heartbeat(beat('w', ['s']));
    await a.heartbeat(beat('w', []));
    for (const pool of [a, b]) assert.deepEqual(await pool.findUnreported(holdings), [holdings[2]]);
    await letPass(here, TIMEOUT_MS - 20_000);
    await b.heartbeat(beat('w', []));
    await a.heartbeat(beat('w', []));
    assert.deepEqual(await a.findUnreported(holdings), [holdings[2]]);
    await letPass(here, 30_000);
    assert.deepEqual(await b.findUnreported(holdings), holdings);
  });

  test('writes a single heartbeat at once, and many with one statement each tenth of a second', async () => {
    let count = 0;
    const writes = (): number => count;
    const pool = poolOn(here, () => void (count += 1));
    await pool.heartbeat(beat('w'));
    assert.equal(writes(), 1);
    for (let wave = 0; wave < 3; wave += 1) {
      await Promise.all(idsOf(1000).map((id) => pool.heartbeat(beat(id, ['r']))));
    }
    assert.equal(writes(), 4);
    assert.equal((await pool.list()).length, 1001);
  });

  test('processes that write the same workers concurrently do not deadlock', async () => {
    const pools = [poolOn(here), poolOn(there)];
    const ids = idsOf(300);
    const orders = [ids, ids.toReversed()];
    for (let round = 0; round < 8; round += 1) {
      await Promise.all(
        pools.flatMap((pool, i) => (orders[i] ?? []).map((id) => pool.heartbeat(beat(id, [`${round}`])))),
      );
    }
    const found = await here.query<{ deadlocks: string }[]>(
      'select deadlocks from pg_stat_database where datname = current_database()',
    );
    assert.equal(found[0]?.deadlocks, '0');
    assert.equal((await poolOn(here).list()).length, ids.length);
  });

  test('a failed statement fails its own heartbeats only', async () => {
    const pool = poolOn(here);
    await here.query('alter table worker_pool rename to worker_pool_away');
    const outcomes = await Promise.allSettled(idsOf(3).map((id) => pool.heartbeat(beat(id))));
    await here.query('alter table worker_pool_away rename to worker_pool');
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected', 'rejected'],
    );
    assert.equal((await pool.heartbeat(beat('w'))).isActive, true);
    assert.deepEqual(
      (await pool.list()).map(({ id }) => id),
      ['w'],
    );
  });

  test('limits the waiting heartbeats while the database blocks, and refuses the rest', async () => {
    const pool = poolOn(here);
    await pool.heartbeat(beat('w'));
    const holder = there.createQueryRunner();
    await holder.startTransaction();
    await holder.query('lock table worker_pool in access exclusive mode');
    const outcomes = Promise.allSettled(idsOf(20_500).map((id) => pool.heartbeat(beat(id))));
    await new Promise((resolve) => setTimeout(resolve, 300));
    await holder.rollbackTransaction();
    await holder.release();
    const refused = (await outcomes).flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason] : [],
    );
    assert.equal(refused.length, 500);
    assert.ok(refused.every((error) => error instanceof TooManyHeartbeats));
    assert.equal((await pool.list()).length, 20_001);
  });

  test('gives unknown workers one timeout to report after a crash of the database emptied it', async () => {
    const pool = poolOn(here);
    assert.deepEqual(await pool.findSilent(['w']), []);
    await letPass(here, TIMEOUT_MS - 10_000);
    assert.deepEqual(await poolOn(there).findSilent(['w']), []);
    await letPass(here, 10_001);
    assert.deepEqual(await poolOn(there).findSilent(['w']), [{ id: 'w', lastHeartbeatAt: null }]);
    // What a crash does to unlogged tables.
    await here.query('truncate worker_pool, worker_descriptions, worker_pool_epoch');
    assert.deepEqual(await pool.findSilent(['w']), []);
  });

  test('a heartbeat without changes rewrites no index and no large column', async () => {
    const pool = poolOn(here);
    const large = Array.from({ length: 200 }, (_, i) => ({
      id: `run-${i}`,
      image: 'image',
      inputs: { text: 'x'.repeat(1000) },
      constraints: {},
    }));
    const ids = idsOf(20);
    const round = async (): Promise<void> => {
      await Promise.all(ids.map((id) => pool.heartbeat(beat(id, undefined, { runningOps: large }))));
    };
    const written = async (): Promise<{ descriptions: number; hot: number; updates: number }> => {
      const found = await here.query<{ descriptions: string; hot: string; updates: string }[]>(
        `select pg_stat_get_tuples_updated('worker_descriptions'::regclass) as descriptions,
                pg_stat_get_tuples_hot_updated('worker_pool'::regclass) as hot,
                pg_stat_get_tuples_updated('worker_pool'::regclass) as updates`,
      );
      const [row] = found;
      return {
        descriptions: Number(row?.descriptions),
        hot: Number(row?.hot),
        updates: Number(row?.updates),
      };
    };
    await round();
    const first = await written();
    for (let i = 0; i < 5; i += 1) await round();
    const deadline = performance.now() + 120_000;
    let now = await written();
    // The server counts what its sessions did with some delay.
    while (now.updates < first.updates + 100 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      now = await written();
    }
    assert.equal(now.updates, first.updates + 100);
    assert.equal(now.descriptions, first.descriptions);
    // An indexed column that changes makes it 0. Some rows move to another page all the same: theirs is full while
    // somebody's snapshot (autovacuum's, say) still sees their old versions.
    assert.ok(now.hot >= first.hot + 50, `${now.hot - first.hot} of 100 wrote no index`);
  });

  describe('at the start of a process', () => {
    const log = createLog({ logLevel: 'error' });

    test('is emptied by the first process of a deployment only', async () => {
      await poolOn(here).heartbeat(beat('of an earlier life'));
      assert.equal(await resetPoolOnFirstStart(here), true);
      assert.deepEqual(await poolOn(here).list(), []);
      const [first, second] = [new CommitNotices(here, log), new CommitNotices(there, log)];
      await first.open();
      const worker = await poolOn(here).heartbeat(beat('w'));
      assert.equal(await resetPoolOnFirstStart(there), false);
      await second.open();
      await first.onApplicationShutdown();
      assert.equal(await resetPoolOnFirstStart(here), false);
      assert.deepEqual(await poolOn(there).list(), [worker]);
      await second.onApplicationShutdown();
      assert.equal(await resetPoolOnFirstStart(here), true);
      assert.deepEqual(await poolOn(there).list(), []);
    });

    test('keeps drains when it is emptied', async () => {
      await poolOn(here).heartbeat(beat('w'));
      await poolOn(here).setDraining('w', true, ADMIN);
      assert.equal(await resetPoolOnFirstStart(here), true);
      assert.equal((await poolOn(here).heartbeat(beat('w'))).isDraining, true);
    });

    test('counts a process again after it has replaced a lost connection', async () => {
      const notices = new CommitNotices(here, log);
      await notices.open();
      await there.query(
        `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and mode = 'ShareLock'
            and database = (select oid from pg_database where datname = current_database())`,
      );
      const deadline = performance.now() + 120_000;
      while (await resetPoolOnFirstStart(there)) {
        assert.ok(performance.now() < deadline);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await notices.onApplicationShutdown();
    });
  });
});

import assert from 'node:assert/strict';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { MAX_DEPARTED } from '../../../src/workers/pool/memory-worker-pool.js';
import { FORGET_AFTER_MS, type Holding, type RunningOp } from '../../../src/workers/pool/worker-pool.js';
import { ADMIN, beat, memoryBench, sharedBench, type PoolBench } from '../../support/workers/worker-pools.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const TIMEOUT_MS = 60_000;
const DAY_MS = FORGET_AFTER_MS;
/** Longer than the operations between two moves of the clock take. */
const SLACK_MS = 10_000;

function hold(runId: string, workerId = 'w'): Holding {
  return { runId, workerId };
}

function withInput(n: number): RunningOp[] {
  return [{ id: 'r', image: 'i', inputs: { n }, constraints: {} }];
}

function many(from: number): string[] {
  return Array.from({ length: MAX_DEPARTED / 2 }, (_, i) => `run-${from + i}`);
}

for (const [kind, open] of [
  ['in memory', memoryBench],
  ['shared', sharedBench],
] as const) {
  describe(`the pool of workers, ${kind}`, () => {
    const database = useTestDatabase();
    let bench: PoolBench;

    beforeAll(async () => {
      bench = await open(database.dataSource, TIMEOUT_MS);
    });
    beforeEach(() => bench.clear());

    const drains = async (): Promise<string[]> => {
      const found = await database.dataSource.query<{ worker_id: string }[]>(
        'select worker_id from worker_drains order by worker_id',
      );
      return found.map(({ worker_id: id }) => id);
    };
    const listed = async (): Promise<string[]> => (await bench.pool.list()).map(({ id }) => id);
    const listedAfter = async (after: string, limit: number): Promise<string[]> =>
      (await bench.pool.listAfter(after, limit)).map(({ id }) => id);
    test('loses a removed worker and its reports; a heartbeat registers it anew', async () => {
      await bench.pool.heartbeat(beat('w', ['r']));
      await bench.pool.heartbeat(beat('v', ['r']));
      await bench.pool.setDraining('w', true, ADMIN);
      await bench.pool.remove('w');
      await bench.pool.remove('w');
      await bench.pool.remove('unknown');
      assert.deepEqual(await listed(), ['v']);
      assert.deepEqual(await bench.pool.count(), {
        active: 1,
        draining: 0,
        not_claiming: 0,
        away: 0,
        stale: 0,
      });
      const again = await bench.pool.heartbeat(beat('w'));
      assert.deepEqual([again.runningOps, again.isDraining], [[], true]);
    });

    test('counts a worker that says why it does not claim apart, unless it drains; its next heartbeat decides', async () => {
      const notClaiming = [{ reason: 'disk_full', message: 'ü' }] as const;
      for (const id of ['a', 'b', 'c']) await bench.pool.heartbeat(beat(id, [], { notClaiming }));
      const active = await bench.pool.heartbeat(beat('d'));
      assert.deepEqual(active.notClaiming, []);
      await bench.pool.setDraining('b', true, ADMIN);
      assert.deepEqual((await bench.pool.find('a'))?.notClaiming, notClaiming);
      assert.deepEqual(await bench.pool.count(), {
        active: 1,
        draining: 1,
        not_claiming: 2,
        away: 0,
        stale: 0,
      });
      await bench.pool.heartbeat(beat('a'));
      assert.deepEqual((await bench.pool.find('a'))?.notClaiming, []);
      assert.deepEqual(await bench.pool.count(), {
        active: 2,
        draining: 1,
        not_claiming: 1,
        away: 0,
        stale: 0,
      });
      await bench.pass(TIMEOUT_MS + 1);
      assert.deepEqual(await bench.pool.count(), {
        active: 0,
        draining: 0,
        not_claiming: 0,
        away: 0,
        stale: 4,
      });
    });

    describe('heartbeats', () => {
      test("returns the worker's description", async () => {
        const said = beat('a/b:1', undefined, {
          cpuCores: 8,
          ramMb: 2 ** 40,
          gpus: [
            { id: 1, vramMb: 80_000, tags: ['ü', ''] },
            { id: 0, vramMb: 0, tags: [] },
          ],
          tags: ['x"\\', '{}', ''],
          engine: { name: 'kubernetes', pending: 0, running: 2 ** 31 - 1 },
          runningOps: [
            { id: 'r', image: 'i', inputs: { __proto__x: [1.5, null], b: 'ü\\"' }, constraints: {} },
          ],
        });
        const answered = await bench.pool.heartbeat(said);
        const { createdAt, lastHeartbeatAt, ...rest } = answered;
        assert.deepEqual(rest, { ...said, awayUntil: null, isActive: true, isDraining: false });
        assert.deepEqual(createdAt, lastHeartbeatAt);
        assert.deepEqual(await bench.pool.find('a/b:1'), answered);
        assert.deepEqual(await bench.pool.list(), [answered]);
        assert.deepEqual([...(await bench.pool.findAll(['nobody', 'a/b:1']))], [['a/b:1', answered]]);
      });

      test('are listed by id, a part at a time', async () => {
        for (const id of ['b', 'a/1', 'B', 'c', 'a']) await bench.pool.heartbeat(beat(id));
        assert.deepEqual(await listedAfter('', 2), ['B', 'a']);
        assert.deepEqual(await listedAfter('a', 2), ['a/1', 'b']);
        assert.deepEqual(await listedAfter('aa', 9), ['b', 'c']);
        assert.deepEqual(await listedAfter('c', 2), []);
      });

      test('a later heartbeat replaces the description and keeps the time of the first', async () => {
        const first = await bench.pool.heartbeat(beat('w', [], { tags: ['old'] }));
        await bench.pass(SLACK_MS);
        const second = await bench.pool.heartbeat(beat('w', [], { tags: ['new'], cpuCores: 2 }));
        assert.deepEqual([second.tags, second.cpuCores], [['new'], 2]);
        assert.ok(second.lastHeartbeatAt.getTime() - second.createdAt.getTime() >= SLACK_MS);
        assert.ok(first.isActive);
        assert.deepEqual(await bench.pool.find('w'), second);
      });

      test('updates running runs that differ only in their inputs', async () => {
        for (const n of [1, 1, 2, 1]) {
          await bench.pool.heartbeat(beat('w', undefined, { runningOps: withInput(n) }));
          assert.deepEqual((await bench.pool.find('w'))?.runningOps, withInput(n));
        }
      });
    });

    describe('silence', () => {
      test('a worker is active up to the timeout, and again with its next heartbeat', async () => {
        assert.equal((await bench.pool.heartbeat(beat('w'))).isActive, true);
        await bench.pass(TIMEOUT_MS - SLACK_MS);
        assert.equal((await bench.pool.find('w'))?.isActive, true);
        assert.deepEqual(await bench.pool.findSilent(['w']), []);
        await bench.pass(SLACK_MS + 1);
        const silent = await bench.pool.find('w');
        assert.equal(silent?.isActive, false);
        assert.deepEqual(await bench.pool.findSilent(['w']), [
          { id: 'w', lastHeartbeatAt: silent.lastHeartbeatAt },
        ]);
        assert.equal((await bench.pool.list())[0]?.isActive, false);
        assert.equal((await bench.pool.findAll(['w'])).get('w')?.isActive, false);
        assert.equal((await bench.pool.heartbeat(beat('w'))).isActive, true);
        assert.deepEqual(await bench.pool.findSilent(['w']), []);
      });

      test('a worker without a heartbeat is not registered, and silent since an unknown time', async () => {
        assert.equal(await bench.pool.find('w'), null);
        assert.deepEqual(await bench.pool.list(), []);
        assert.equal((await bench.pool.findAll(['w'])).size, 0);
        assert.deepEqual(await bench.pool.findSilent(['w']), [{ id: 'w', lastHeartbeatAt: null }]);
        assert.deepEqual(await bench.pool.findSilent([]), []);
      });

      test('lists any number of workers by id, bytewise, in any order of heartbeats', async () => {
        const ids = Array.from({ length: 1203 }, (_, i) => `${'bBa-0/:'.charAt(i % 7)}${i}`).map(
          (id) => `w${id}`,
        );
        await Promise.all(ids.map((id) => bench.pool.heartbeat(beat(id))));
        assert.deepEqual(
          await listed(),
          ids.toSorted((a, b) => (a < b ? -1 : 1)),
        );
      });

      test('removes a worker that was silent for 24 hours; it can register again', async () => {
        await bench.pool.heartbeat(beat('old', ['r']));
        await bench.pass(2 * SLACK_MS);
        await bench.pool.heartbeat(beat('young'));
        await bench.pass(DAY_MS - SLACK_MS);
        assert.equal(await bench.pool.find('old'), null);
        assert.deepEqual(await listed(), ['young']);
        assert.deepEqual(await bench.pool.findSilent(['old']), [{ id: 'old', lastHeartbeatAt: null }]);
        const anew = await bench.pool.heartbeat(beat('old'));
        assert.deepEqual(anew.createdAt, anew.lastHeartbeatAt);
        assert.deepEqual(anew.runningOps, []);
        assert.deepEqual((await bench.pool.heartbeat(beat('old', ['r']))).runningOps.length, 1);
        assert.deepEqual((await bench.pool.find('old'))?.runningOps.length, 1);
      });
    });

    describe('drains', () => {
      test('a drain survives a restart', async () => {
        await bench.pool.heartbeat(beat('w'));
        await bench.pool.setDraining('w', true, ADMIN);
        for (let day = 0; day < 3; day += 1) {
          await bench.pass(DAY_MS - SLACK_MS);
          await bench.pool.heartbeat(beat('w'));
          await bench.pool.forget();
        }
        const pool = await bench.restart();
        assert.equal(await pool.find('w'), null);
        assert.equal(await pool.forget(), 0);
        assert.equal((await pool.heartbeat(beat('w'))).isDraining, true);
      });

      test('is removed with its worker, and not before', async () => {
        for (const id of ['gone', 'here']) {
          await bench.pool.heartbeat(beat(id, ['r']));
          await bench.pool.setDraining(id, true, ADMIN);
        }
        await bench.pass(DAY_MS - SLACK_MS);
        await bench.pool.heartbeat(beat('here'));
        assert.equal(await bench.pool.forget(), 0);
        assert.deepEqual(await drains(), ['gone', 'here']);
        await bench.pass(2 * SLACK_MS);
        assert.ok((await bench.pool.forget()) >= 1);
        assert.deepEqual(await drains(), ['here']);
        assert.equal((await bench.pool.heartbeat(beat('gone'))).isDraining, false);
        assert.equal((await bench.pool.find('here'))?.isDraining, true);
      });

      test('removes any number of drains in batches, and stops when its signal aborts', async () => {
        await database.dataSource.query(
          `insert into worker_drains (worker_id, drained_at, seen_at)
           select 'd' || n, '2020-01-01', '2020-01-01' from generate_series(1, 1001) n`,
        );
        const pool = await bench.restart();
        assert.equal(await pool.forget(AbortSignal.abort()), 0);
        assert.equal((await drains()).length, 1001);
        assert.equal(await pool.forget(), 1001);
        assert.deepEqual(await drains(), []);
      });
    });

    describe('unreported runs', () => {
      test('a run in none of two recent reports is unreported', async () => {
        await bench.pool.heartbeat(beat('w', ['other']));
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), []);
        await bench.pool.heartbeat(beat('w', ['other']));
        assert.deepEqual(await bench.pool.findUnreported([hold('r'), hold('other')]), [hold('r')]);
      });

      test('a run in one of them is reported until that report is older than the timeout', async () => {
        for (const runs of [['r'], [], [], []]) {
          await bench.pool.heartbeat(beat('w', runs));
          await bench.pass(SLACK_MS);
        }
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), []);
        await bench.pass(TIMEOUT_MS - 3 * SLACK_MS - SLACK_MS / 2);
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), [hold('r')]);
      });

      test('a run that was missing and reported again counts from its last report', async () => {
        for (const runs of [['r'], [], ['r', 's'], []]) {
          await bench.pool.heartbeat(beat('w', runs));
          await bench.pass(SLACK_MS);
        }
        await bench.pass(2 * SLACK_MS);
        await bench.pool.heartbeat(beat('w', []));
        await bench.pool.heartbeat(beat('w', []));
        assert.deepEqual(await bench.pool.findUnreported([hold('r'), hold('s')]), []);
        await bench.pass(2 * SLACK_MS + SLACK_MS / 2);
        assert.deepEqual(await bench.pool.findUnreported([hold('r'), hold('s')]), [hold('r'), hold('s')]);
      });

      test('a heartbeat without running runs is not a report', async () => {
        for (const runs of [undefined, [], undefined, undefined]) await bench.pool.heartbeat(beat('w', runs));
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), []);
        await bench.pool.heartbeat(beat('w', []));
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), [hold('r')]);
      });

      test('reports from before the timeout do not count', async () => {
        await bench.pool.heartbeat(beat('w', []));
        await bench.pass(TIMEOUT_MS + 1);
        await bench.pool.heartbeat(beat('w', []));
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), []);
        await bench.pool.heartbeat(beat('w', []));
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), [hold('r')]);
        await bench.pass(TIMEOUT_MS + 1);
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), []);
      });

      test('several concurrent heartbeats are several reports', async () => {
        await Promise.all([['r'], ['s'], []].map((runs) => bench.pool.heartbeat(beat('w', runs))));
        assert.deepEqual(await bench.pool.findUnreported([hold('r'), hold('s'), hold('t')]), [hold('t')]);
        assert.deepEqual((await bench.pool.find('w'))?.runningOps, []);
      });

      test('returns nothing for unregistered workers and without runs', async () => {
        await bench.pool.heartbeat(beat('w', []));
        await bench.pool.heartbeat(beat('w', []));
        assert.deepEqual(await bench.pool.findUnreported([hold('r', 'nobody')]), []);
        assert.deepEqual(await bench.pool.findUnreported([]), []);
      });

      test('ignores the reports of a worker with too many runs until they are older than the timeout', async () => {
        for (let round = 0; round < 4; round += 1) {
          await bench.pool.heartbeat(beat('w', many(round * MAX_DEPARTED)));
        }
        assert.deepEqual(await bench.pool.findUnreported([hold('run-0'), hold('r')]), []);
        await bench.pass(TIMEOUT_MS + 1);
        await bench.pool.heartbeat(beat('w', []));
        await bench.pool.heartbeat(beat('w', []));
        assert.deepEqual(await bench.pool.findUnreported([hold('r')]), [hold('r')]);
      });
    });
  });
}

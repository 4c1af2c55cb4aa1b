import assert from 'node:assert/strict';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { OverLimit } from '../../../src/common/errors/domain-error.js';
import type { RunningOp } from '../../../src/workers/pool/worker-pool.js';
import { beat, memoryBench, sharedBench, type PoolBench } from '../../support/workers/worker-pools.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const TIMEOUT_MS = 60_000;
const MAX_WORKERS = 3;
const LIMITS = { maxWorkers: MAX_WORKERS, maxWorkersPerKey: 2, maxWorkerBytes: 4096 };
const [KEY, OTHER_KEY] = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'];

function runs(count: number, text: string): RunningOp[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `run-${i}`,
    image: 'i',
    inputs: { text },
    constraints: {},
  }));
}

for (const [kind, open] of [
  ['in memory', memoryBench],
  ['shared', sharedBench],
] as const) {
  describe(`a pool of ${MAX_WORKERS} workers at most, ${kind}`, () => {
    const database = useTestDatabase();
    let bench: PoolBench;

    beforeAll(async () => {
      bench = await open(database.dataSource, TIMEOUT_MS, LIMITS);
    });
    beforeEach(async () => {
      await bench.clear();
      for (let n = 0; n < MAX_WORKERS; n += 1)
        await bench.pool.heartbeat(beat(`w${n}`), n === 0 ? OTHER_KEY : KEY);
    });

    const listed = async (): Promise<string[]> => (await bench.pool.list()).map(({ id }) => id);

    test('refuses what is too many of several heartbeats at once, and no others', async () => {
      await bench.clear();
      const ids = ['a', 'b', 'c', 'd', 'e'];
      const answers = await Promise.allSettled(
        ids.map((id, n) => bench.pool.heartbeat(beat(id), n % 2 === 0 ? OTHER_KEY : KEY)),
      );
      const admitted = answers.filter(({ status }) => status === 'fulfilled');
      assert.equal(admitted.length, MAX_WORKERS);
      assert.equal((await listed()).length, MAX_WORKERS);
    });

    test('refuses more workers of one key, also of several heartbeats at once', async () => {
      await bench.clear();
      const answers = await Promise.allSettled(
        ['a', 'b', 'c'].map((id) => bench.pool.heartbeat(beat(id), KEY)),
      );
      assert.deepEqual(
        answers.map(({ status }) => status),
        ['fulfilled', 'fulfilled', 'rejected'],
      );
      await assert.rejects(bench.pool.heartbeat(beat('c'), KEY), (error) => {
        assert.ok(error instanceof OverLimit);
        assert.deepEqual([error.kind, error.limit], ['rate-limited', 'SERVICE_MAX_WORKERS_PER_KEY']);
        return true;
      });
      await bench.pool.heartbeat(beat('a'), KEY);
      await bench.pool.heartbeat(beat('c'), OTHER_KEY);
      await bench.pool.remove('a');
      await bench.pool.heartbeat(beat('d'), KEY);
      assert.deepEqual(await listed(), ['b', 'c', 'd']);
    });

    test('forgets a silent worker after an hour if it never had a run', async () => {
      await bench.clear();
      await bench.pool.heartbeat(beat('idle', []), KEY);
      await bench.pool.heartbeat(beat('busy', ['r']), KEY);
      await bench.pool.heartbeat(beat('busy', []), KEY);
      await bench.pass(59 * 60_000);
      await bench.pool.forget();
      assert.deepEqual(await listed(), ['busy', 'idle']);
      await bench.pass(2 * 60_000);
      await bench.pool.forget();
      assert.deepEqual(await listed(), ['busy']);
    });

    test('when full, forgets workers that were silent for two timeouts', async () => {
      await bench.pass(1.5 * TIMEOUT_MS);
      await bench.pool.heartbeat(beat('w2'), KEY);
      await assert.rejects(bench.pool.heartbeat(beat('new')), OverLimit, 'not yet silent for so long');
      await bench.pass(0.6 * TIMEOUT_MS);
      // The shared pool makes room for the next try.
      await bench.pool.heartbeat(beat('new')).catch(() => undefined);
      await bench.pool.heartbeat(beat('new'));
      assert.deepEqual(await listed(), ['new', 'w2']);
    });

    test('shows running runs as far as they fit, and takes the report of all', async () => {
      const full = await bench.pool.heartbeat(beat('w0', undefined, { runningOps: runs(3, 'short') }));
      assert.deepEqual(full.runningOps, runs(3, 'short'));
      const without = await bench.pool.heartbeat(
        beat('w0', undefined, { runningOps: runs(3, 'x'.repeat(5000)) }),
      );
      assert.deepEqual(
        without.runningOps.map(({ id, inputs }) => [id, inputs]),
        runs(3, '').map(({ id }) => [id, {}]),
      );
      const many = runs(500, '');
      for (let n = 0; n < 2; n += 1) {
        const { runningOps } = await bench.pool.heartbeat(beat('w0', undefined, { runningOps: many }));
        assert.ok(runningOps.length > 10 && runningOps.length < 60, `${runningOps.length} runs are shown`);
      }
      const held = ['run-0', 'run-499', 'missing'].map((runId) => ({ runId, workerId: 'w0' }));
      assert.deepEqual(await bench.pool.findUnreported(held), [{ runId: 'missing', workerId: 'w0' }]);
    });
  });
}

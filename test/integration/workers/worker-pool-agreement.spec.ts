import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { ADMIN, beat, memoryBench, sharedBench, type PoolBench } from '../../support/workers/worker-pools.js';
import type { EngineJobs, PooledWorker } from '../../../src/workers/pool/worker-pool.js';
import { atDepth } from '../../support/depth.js';

/** Moves of the clock are multiples of ten seconds; the time that operations take never reaches the next boundary. */
const TIMEOUT_MS = 55_000;
const WORKERS = ['a', 'b/1', 'c'];
const RUNS = ['r1', 'r2', 'r3'];
const HOLDINGS = WORKERS.flatMap((workerId) => RUNS.map((runId) => ({ runId, workerId })));

type Step =
  | {
      readonly do: 'beat';
      readonly beats: readonly (readonly [
        string,
        readonly string[] | undefined,
        number,
        EngineJobs | null,
      ])[];
    }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'drain'; readonly worker: string; readonly draining: boolean }
  | { readonly do: 'forget' }
  | { readonly do: 'restart' };

const worker = fc.constantFrom(...WORKERS);
const runs = fc.option(fc.uniqueArray(fc.constantFrom(...RUNS)), { nil: undefined });
const engine = fc.option(
  fc
    .tuple(fc.constantFrom('slurm', 'kubernetes'), fc.nat(2), fc.nat(2))
    .map(([name, pending, running]) => ({ name, pending, running })),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .array(fc.tuple(worker, runs, fc.nat(3), engine), { minLength: 1, maxLength: 4 })
      .map((beats) => ({ do: 'beat' as const, beats })),
  },
  {
    weight: 5,
    arbitrary: fc
      .constantFrom(10_000, 20_000, 30_000, 60_000, 12 * 3_600_000, 24 * 3_600_000)
      .map((ms) => ({ do: 'pass' as const, ms })),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ worker, draining: fc.boolean() })
      .map((drain) => ({ do: 'drain' as const, ...drain })),
  },
  { weight: 1, arbitrary: fc.constant({ do: 'forget' }) },
  { weight: 1, arbitrary: fc.constant({ do: 'restart' }) },
);

/** What can be seen of a worker, but for times, which the two pools take from different clocks. */
function seen(pooled: PooledWorker | null | undefined): object | null {
  if (!pooled) return null;
  const { createdAt, lastHeartbeatAt, ...rest } = pooled;
  return { ...rest, age: Math.floor((lastHeartbeatAt.getTime() - createdAt.getTime()) / 5_000) * 5_000 };
}

async function take(bench: PoolBench, todo: Step): Promise<unknown> {
  switch (todo.do) {
    case 'beat': {
      const said = todo.beats.map(([id, named, cpuCores, jobs]) =>
        bench.pool.heartbeat(beat(id, named, { cpuCores, engine: jobs })),
      );
      await Promise.all(said);
      return null;
    }
    case 'pass':
      return bench.pass(todo.ms);
    case 'drain':
      return seen(await bench.pool.setDraining(todo.worker, todo.draining, ADMIN));
    case 'forget':
      await bench.pool.forget();
      return null;
    case 'restart':
      await bench.restart();
      return null;
  }
}

async function look({ pool }: PoolBench): Promise<unknown> {
  const all = await pool.findAll(WORKERS);
  const silent = await pool.findSilent(WORKERS);
  const unreported = await pool.findUnreported(HOLDINGS);
  return {
    list: (await pool.list()).map(seen),
    some: (await pool.listAfter(WORKERS[0] ?? '', 1)).map(seen),
    engines: [await pool.listEngines(1), await pool.listEngines(9)],
    all: WORKERS.map((id) => seen(all.get(id))),
    silent: silent
      .map(({ id, lastHeartbeatAt }) => `${id} ${lastHeartbeatAt === null}`)
      .toSorted((a, b) => a.localeCompare(b)),
    unreported: HOLDINGS.filter(({ runId, workerId }) =>
      unreported.some((found) => found.runId === runId && found.workerId === workerId),
    ),
  };
}

describe('the two pools of workers', () => {
  let memory: TestDatabase;
  let shared: TestDatabase;

  beforeAll(async () => {
    [memory, shared] = [await openTestDatabase(), await openTestDatabase()];
  });
  afterAll(() => Promise.all([memory.close(), shared.close()]));

  test('return the same for every operation, after any sequence of operations', async () => {
    const benches = [
      await memoryBench(memory.dataSource, TIMEOUT_MS),
      await sharedBench(shared.dataSource, TIMEOUT_MS),
    ] as const;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
        for (const bench of benches) await bench.clear();
        for (const todo of steps) {
          const [inMemory, inTable] = [await take(benches[0], todo), await take(benches[1], todo)];
          assert.deepEqual(inTable, inMemory);
          assert.deepEqual(await look(benches[1]), await look(benches[0]));
        }
      }),
      { numRuns: atDepth({ fast: 4, all: 40 }) },
    );
  });
});

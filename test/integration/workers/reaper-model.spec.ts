import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { createOn } from '../../support/runs/journal.js';
import {
  forgetEverything,
  POOLS,
  ReaperScene,
  TIMEOUT_MS,
  type PoolKind,
} from '../../support/workers/reaper-scene.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** TEST_SEED=n tries other sequences; a failure prints the seed and the path of the shrunk one. */
const SEED = testSeed(20_260_101);
const SEQUENCES = { memory: atDepth({ fast: 6, all: 40 }), shared: atDepth({ fast: 4, all: 15 }) };

const WORKERS = ['a', 'b', 'c'] as const;
const TENTH = TIMEOUT_MS / 10;

type Worker = (typeof WORKERS)[number];

type Step =
  | { readonly do: 'heartbeat' | 'claim' | 'complete'; readonly worker: Worker }
  | { readonly do: 'let pass'; readonly tenths: number }
  | { readonly do: 'pause'; readonly tenths: number }
  | { readonly do: 'reap' | 'outage' };

const anyWorker = fc.constantFrom(...WORKERS);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: anyWorker.map((worker): Step => ({ do: 'heartbeat', worker })) },
  { weight: 3, arbitrary: anyWorker.map((worker): Step => ({ do: 'claim', worker })) },
  { weight: 1, arbitrary: anyWorker.map((worker): Step => ({ do: 'complete', worker })) },
  {
    weight: 4,
    arbitrary: fc.integer({ min: 1, max: 7 }).map((tenths): Step => ({ do: 'let pass', tenths })),
  },
  { weight: 1, arbitrary: fc.integer({ min: 4, max: 20 }).map((tenths): Step => ({ do: 'pause', tenths })) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'outage' }) },
  { weight: 4, arbitrary: fc.constant<Step>({ do: 'reap' }) },
);

/** What has to be, in tenths of the timeout since the beginning. */
class Model {
  now = 0;
  undisturbedSince = 0;
  readonly heardAt = new Map<Worker, number>();
  /** Run by id with who holds it, at which attempt; null: it waits. */
  readonly runs = new Map<string, { holder: Worker | null; attempt: number; ended: boolean }>();

  held(worker: Worker): string[] {
    return [...this.runs].flatMap(([id, { holder, ended }]) => (holder === worker && !ended ? [id] : []));
  }

  /** Silent for strictly longer than the timeout, while the reaper may judge. */
  isLost(worker: Worker): boolean {
    const heardAt = this.heardAt.get(worker) ?? 0;
    return this.now - heardAt > 10 && this.now - this.undisturbedSince >= 10;
  }

  /** At the limit to the tenth the shared pool's clock, which goes on by itself, decides. */
  isOnTheEdge(worker: Worker): boolean {
    return this.now - (this.heardAt.get(worker) ?? 0) === 10;
  }
}

async function play(
  scene: ReaperScene,
  pool: PoolKind,
  steps: readonly Step[],
  seen: Set<string>,
): Promise<void> {
  const model = new Model();
  // The scene has listened for one timeout already.
  model.undisturbedSince = -10;
  for (const worker of WORKERS) {
    await scene.heartbeat(worker);
    model.heardAt.set(worker, 0);
  }
  for (let i = 0; i < 6; i += 1) {
    const { id } = await createOn(scene.journal);
    model.runs.set(id, { holder: null, attempt: 1, ended: false });
  }
  for (const step of steps) {
    switch (step.do) {
      case 'heartbeat':
        await scene.heartbeat(step.worker);
        model.heardAt.set(step.worker, model.now);
        break;
      case 'claim': {
        // Only an active worker is given anything; the context of this test gives to anybody.
        if (model.now - (model.heardAt.get(step.worker) ?? 0) >= 10) break;
        for (const id of await scene.claim(step.worker)) {
          const run = model.runs.get(id) ?? assert.fail('it is one of ours');
          assert.equal(run.holder, null, 'a run is handed to one worker at a time');
          run.holder = step.worker;
        }
        break;
      }
      case 'complete': {
        const [id] = model.held(step.worker);
        const run = id === undefined ? undefined : model.runs.get(id);
        if (id === undefined || !run) break;
        // A worker whose run the service still counts as its own completes it, however long it was silent.
        await scene.event(id, 'COMPLETED', { workerId: step.worker, attempt: run.attempt });
        run.ended = true;
        break;
      }
      case 'let pass':
        await scene.letPass(step.tenths * TENTH);
        model.now += step.tenths;
        break;
      case 'pause':
        await scene.pause(step.tenths * TENTH);
        scene.grace.check();
        model.now += step.tenths;
        model.undisturbedSince = model.now;
        break;
      case 'outage':
        scene.grace.databaseFailed();
        model.undisturbedSince = model.now;
        await scene.reaper.runOnce();
        break;
      case 'reap':
        await reap(scene, pool, model, seen);
        break;
    }
  }
  // Whatever happened: with time, what stale workers hold comes back, and nothing else does.
  await scene.letPass(11 * TENTH);
  model.now += 11;
  await reap(scene, pool, model, seen);
  for (const worker of WORKERS) assert.deepEqual(model.held(worker), [], 'nothing stays with a stale worker');
}

/** One pass, and what must and must not have come of it. */
async function reap(scene: ReaperScene, pool: PoolKind, model: Model, seen: Set<string>): Promise<void> {
  const { silent, unreported, refused, failed } = await scene.reaper.runOnce();
  assert.deepEqual([unreported, refused, failed], [0, 0, 0]);
  let reclaimed = 0;
  for (const worker of WORKERS) {
    for (const id of model.held(worker)) {
      const run = model.runs.get(id) ?? assert.fail();
      const { state, attempt, workerId } = await scene.get(id);
      const wasReclaimed = attempt !== run.attempt;
      if (pool === 'memory' || !model.isOnTheEdge(worker)) {
        assert.equal(wasReclaimed, model.isLost(worker), `run of ${worker} at ${model.now}`);
      }
      if (wasReclaimed) {
        assert.deepEqual([state, attempt, workerId], ['PENDING', run.attempt + 1, null]);
        run.holder = null;
        run.attempt = attempt;
        reclaimed += 1;
      } else assert.equal(workerId, worker);
      seen.add(
        wasReclaimed ? 'reclaimed' : model.now - (model.heardAt.get(worker) ?? 0) > 10 ? 'grace' : 'kept',
      );
    }
  }
  assert.equal(silent, reclaimed);
}

for (const pool of POOLS) {
  describe(`whatever workers do, with the ${pool} pool,`, () => {
    const database = useTestDatabase();

    test('a worker in time never loses a run, and a stale worker’s runs always come back', async (t) => {
      await t.annotate(`seed ${SEED}`);
      const seen = new Set<string>();
      const property = fc.asyncProperty(
        fc.array(anyStep, { minLength: 5, maxLength: 40, size: 'max' }),
        async (steps) => {
          await forgetEverything(database.dataSource);
          const scene = await ReaperScene.open(database.dataSource, { pool, maxReclaims: 1000 });
          await play(scene, pool, steps, seen);
          await checkInvariants(database.dataSource);
        },
      );
      await fc.assert(property, { numRuns: SEQUENCES[pool], seed: SEED, endOnFailure: false });
      assert.deepEqual([...seen].toSorted(), ['grace', 'kept', 'reclaimed'], 'the sequences came far enough');
    });
  });
}

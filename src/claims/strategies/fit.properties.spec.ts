import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import {
  shapeOf,
  type Choice,
  type Claimant,
  type HeldRun,
  type QueuedRun,
} from '../../runs/scheduling-strategy.js';
import { gpusOf } from '../../runs/machine/run.js';
import { FitStrategy } from './fit.strategy.js';
import { ago, claimant, heldBy, NOW, queued } from './strategy.fixtures.js';

const RESERVE_AFTER = 300;
const fit = new FitStrategy(RESERVE_AFTER);

/** What a choice is made from. */
interface Scene {
  readonly claimants: readonly Claimant[];
  readonly runs: readonly QueuedRun[];
  readonly reachable: ReadonlySet<string>;
}

const amount = (max: number): fc.Arbitrary<number> =>
  fc.oneof({ weight: 1, arbitrary: fc.constant(0) }, { weight: 3, arbitrary: fc.integer({ min: 0, max }) });
const needs = fc.record({
  cpu: amount(6),
  ramMb: amount(12),
  vramMb: amount(10),
  gpus: fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 2 }) },
  ),
});

function workerArbitrary(id: string): fc.Arbitrary<Claimant> {
  const has = fc.record({
    cpu: fc.integer({ min: 0, max: 8 }),
    ramMb: fc.integer({ min: 0, max: 16 }),
    gpus: fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 3 }),
  });
  const held = fc.array(fc.tuple(needs, fc.option(fc.integer({ min: 0, max: 2 }))), { maxLength: 3 });
  return fc.tuple(has, held).map(([resources, takes]) =>
    claimant(
      id,
      resources,
      takes.map(([take, gpuId], i) => heldBy(id, `${id}-held-${i}`, { ...take, gpuId })),
    ),
  );
}

const claimantsArbitrary = fc
  .integer({ min: 1, max: 3 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => workerArbitrary(`w${i}`))));

function sceneArbitrary(waiting: fc.Arbitrary<Partial<QueuedRun>>): fc.Arbitrary<Scene> {
  return fc.record({
    claimants: claimantsArbitrary,
    runs: fc
      .array(fc.tuple(needs, waiting), { maxLength: 14 })
      .map((all) => all.map(([asks, more], i) => queued(`run-${i}`, asks, more))),
    reachable: fc.subarray(['w0', 'w1', 'w2', 'elsewhere']).map((ids) => new Set(ids)),
  });
}

/** Runs without a reserved worker that are not overdue. */
const plainScenes = sceneArbitrary(
  fc.record({ passedOverAt: fc.option(fc.integer({ min: 0, max: 299 }).map(ago)) }),
);
const scenes = sceneArbitrary(
  fc.record({
    passedOverAt: fc.option(fc.integer({ min: 0, max: 600 }).map(ago)),
    reservedFor: fc.option(fc.constantFrom('w0', 'w1', 'w2', 'elsewhere'), { freq: 2 }),
  }),
);

function choose({ claimants, runs, reachable }: Scene): Choice {
  return fit.choose(claimants, runs, { now: NOW, reachable });
}

function couldEverHold(worker: Claimant, run: QueuedRun): boolean {
  return fit.obstacles({ ...worker, held: [], keptFor: null }, run).length === 0;
}

/** The run for which a worker is reserved before the choice. */
function keptAtFirst({ runs }: Scene, worker: Claimant): string | null {
  return runs.find((run) => run.reservedFor === worker.id && couldEverHold(worker, run))?.id ?? null;
}

function runOf({ runs }: Scene, runId: string): QueuedRun {
  return runs.find(({ id }) => id === runId) ?? assert.fail(`${runId} is a candidate`);
}

function asHeld(
  scene: Scene,
  workerId: string,
  { runId, gpuId, gpuIds }: Choice['assignments'][number],
): HeldRun {
  return { runId, workerId, ...shapeOf(runOf(scene, runId)), gpuIds: gpuIds ?? [gpuId ?? []].flat() };
}

/** Calls back for each assignment with its worker as it is just before. */
function replay(
  scene: Scene,
  choice: Choice,
  see: (worker: Claimant, run: QueuedRun, gpuId: number | null) => void,
): Claimant[] {
  const present = scene.claimants.map((worker) => ({ ...worker, keptFor: keptAtFirst(scene, worker) }));
  for (const assignment of choice.assignments) {
    const worker = present[assignment.claim] ?? assert.fail('the claim is one of those given');
    see(worker, runOf(scene, assignment.runId), assignment.gpuId);
    for (const [i, other] of present.entries()) {
      if (other.keptFor === assignment.runId) present[i] = { ...other, keptFor: null };
    }
    const held = [...worker.held, asHeld(scene, worker.id, assignment)];
    present[assignment.claim] = { ...worker, keptFor: present[assignment.claim]?.keptFor ?? null, held };
  }
  return present;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

/** Whether the run uses the GPU, or it is not known which one it uses. */
function mayUse({ gpus, vramMb, gpuIds }: HeldRun, id: number): boolean {
  return gpuIds.length > 0 ? gpuIds.includes(id) : gpus > 0 || vramMb > 0;
}

describe('every choice of the strategy fit', () => {
  it('stays within each resource of each worker and GPU', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const choice = choose(scene);
        scene.claimants.forEach((worker, claim) => {
          const got = choice.assignments
            .filter((one) => one.claim === claim)
            .map((one) => asHeld(scene, worker.id, one));
          const all = [...worker.held, ...got];
          for (const [key, total] of [
            ['cpuMillis', worker.cpuCores * 1000],
            ['ramMb', worker.ramMb],
          ] as const) {
            if (got.some((run) => run[key] > 0)) assert.ok(sum(all.map((run) => run[key])) <= total, key);
          }
          for (const gpu of worker.gpus) {
            if (!got.some((run) => run.gpuIds.includes(gpu.id))) continue;
            const on = all.filter((run) => mayUse(run, gpu.id));
            assert.ok(sum(on.map((run) => run.vramMb)) <= gpu.vramMb, `GPU ${gpu.id}`);
            if (on.some(({ gpus }) => gpus > 0)) assert.equal(on.length, 1, `GPU ${gpu.id} is of one run`);
          }
          for (const run of got) assert.equal(run.gpuIds.length, run.gpus || Math.sign(run.vramMb));
        });
      }),
    );
  });

  it('assigns no run twice and only candidates', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const { assignments } = choose(scene);
        assert.equal(new Set(assignments.map(({ runId }) => runId)).size, assignments.length);
        for (const { claim, runId, gpuId } of assignments) {
          runOf(scene, runId);
          const worker = scene.claimants[claim] ?? assert.fail();
          assert.ok(gpuId === null || worker.gpus.some(({ id }) => id === gpuId));
        }
      }),
    );
  });

  it('assigns a claim with a maximum the first of the runs that it would get without', () => {
    fc.assert(
      fc.property(plainScenes, fc.integer({ min: 0, max: 5 }), (scene, max) => {
        const [worker = assert.fail()] = scene.claimants;
        const all = choose({ ...scene, claimants: [worker] }).assignments;
        const some = choose({ ...scene, claimants: [{ ...worker, max }] }).assignments;
        assert.deepEqual(some, all.slice(0, max));
      }),
    );
  });

  it('keeps to the maximum of each claim, and leaves only runs that fit no claim below its maximum', () => {
    const limits = fc.array(fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }), {
      minLength: 3,
      maxLength: 3,
    });
    fc.assert(
      fc.property(scenes, limits, (plain, maxima) => {
        const claimants = plain.claimants.map((worker, i) => ({ ...worker, max: maxima[i] }));
        const scene = { ...plain, claimants };
        const choice = choose(scene);
        const taken = new Set(choice.assignments.map(({ runId }) => runId));
        const kept = new Set(choice.reservations?.map(({ workerId }) => workerId));
        for (const [claim, worker] of replay(scene, choice, () => {}).entries()) {
          const got = choice.assignments.filter((one) => one.claim === claim).length;
          const { max = Infinity } = worker;
          assert.ok(got <= max);
          if (kept.has(worker.id) || got === max) continue;
          for (const run of scene.runs) {
            if (!taken.has(run.id)) assert.notDeepEqual(fit.obstacles(worker, run), [], run.id);
          }
        }
      }),
    );
  });

  it('assigns a run only to workers without an obstacle', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        replay(scene, choose(scene), (worker, run) => assert.deepEqual(fit.obstacles(worker, run), []));
      }),
    );
  });

  it('assigns the head of the queue if it fits any worker', () => {
    fc.assert(
      fc.property(plainScenes, (scene) => {
        const [head] = scene.runs;
        if (!head) return;
        const hasRoom = scene.claimants.some((worker) => fit.obstacles(worker, head).length === 0);
        assert.equal(choose(scene).assignments[0]?.runId === head.id, hasRoom);
      }),
    );
  });

  it('never assigns a later run in the place of an earlier one', () => {
    fc.assert(
      fc.property(plainScenes, (scene) => {
        const { assignments } = choose(scene);
        const placeOf = new Map(scene.runs.map(({ id }, i) => [id, i]));
        const taken = new Set(assignments.map(({ runId }) => runId));
        scene.runs.forEach((run, at) => {
          if (taken.has(run.id)) return;
          scene.claimants.forEach((worker, claim) => {
            const before = assignments.filter(
              (one) => one.claim === claim && (placeOf.get(one.runId) ?? 0) < at,
            );
            const held = [...worker.held, ...before.map((one) => asHeld(scene, worker.id, one))];
            assert.notDeepEqual(fit.obstacles({ ...worker, held }, run), []);
          });
        });
      }),
    );
  });

  it('uses the GPU with the least sufficient free memory', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        replay(scene, choose(scene), (worker, run, gpuId) => {
          if (run.vramMb === 0 || gpusOf(run) > 0) return;
          const left = worker.gpus.map((gpu) => {
            const on = worker.held.filter((held) => mayUse(held, gpu.id));
            const isTaken = on.some(({ gpus }) => gpus > 0);
            return { id: gpu.id, vramMb: isTaken ? -1 : gpu.vramMb - sum(on.map(({ vramMb }) => vramMb)) };
          });
          const suffice = left.filter(({ vramMb }) => vramMb >= run.vramMb).map(({ vramMb }) => vramMb);
          assert.equal(left.find(({ id }) => id === gpuId)?.vramMb, Math.min(...suffice));
        });
      }),
    );
  });

  it('reserves each worker for one overdue run that it could execute, and for each run one worker', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const choice = choose(scene);
        const kept = (choice.reservations ?? []).filter(({ workerId }) => workerId !== null);
        const old = replay(scene, choice, () => {}).filter(({ keptFor }) => keptFor);
        const workers = [...kept.map(({ workerId }) => workerId), ...old.map(({ id }) => id)];
        const runs = [...kept.map(({ runId }) => runId), ...old.map(({ keptFor }) => keptFor)];
        assert.equal(new Set(workers).size, workers.length);
        assert.equal(new Set(runs).size, runs.length);
        for (const { runId, workerId } of kept) {
          const run = runOf(scene, runId);
          const worker = scene.claimants.find(({ id }) => id === workerId) ?? assert.fail();
          assert.ok(couldEverHold(worker, run));
          assert.ok(run.passedOverAt && run.passedOverAt <= ago(RESERVE_AFTER));
        }
      }),
    );
  });

  it('marks exactly the runs behind which a worker that could execute them got a later one', () => {
    fc.assert(
      fc.property(scenes, (scene) => {
        const { assignments, passedOver = [] } = choose(scene);
        const placeOf = new Map(scene.runs.map(({ id }, i) => [id, i]));
        const taken = new Set(assignments.map(({ runId }) => runId));
        const expected = scene.runs.filter(
          (run, at) =>
            !taken.has(run.id) &&
            run.passedOverAt === null &&
            assignments.some(({ claim, runId }) => {
              const worker = scene.claimants[claim] ?? assert.fail();
              return (placeOf.get(runId) ?? 0) > at && couldEverHold(worker, run);
            }),
        );
        assert.deepEqual(
          passedOver,
          expected.map(({ id }) => id),
        );
      }),
    );
  });
});

import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import fc from 'fast-check';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { atDepth } from '../../support/depth.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const WORKERS = ['w0', 'w1', 'w2'];

interface Constraints {
  readonly cpu: number;
  readonly ram_mb: number;
  readonly vram_mb: number;
}

interface Resources {
  readonly cpu_cores: number;
  readonly ram_mb: number;
  readonly gpus: readonly { readonly id: number; readonly vram_mb: number; readonly tags: [] }[];
}

/** What a run says beyond its constraints. */
interface Options {
  readonly selector?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly concurrency?: { readonly key: string; readonly limit: number };
}

type Step =
  | {
      readonly do: 'create';
      readonly constraints: Constraints;
      readonly priority: number;
      readonly options?: Options;
    }
  | { readonly do: 'claim' | 'drain' | 'resume'; readonly worker: string }
  | { readonly do: 'end'; readonly nth: number };

interface WorkerKind {
  readonly resources: Resources;
  readonly tags: readonly string[];
  readonly capabilities: readonly string[];
}

interface Story {
  readonly workers: readonly WorkerKind[];
  readonly steps: readonly Step[];
}

const amount = (max: number): fc.Arbitrary<number> => fc.oneof(fc.constant(0), fc.integer({ min: 0, max }));
const constraints = fc.record({ cpu: amount(5), ram_mb: amount(8), vram_mb: amount(6) });
const resources: fc.Arbitrary<Resources> = fc.record({
  cpu_cores: fc.integer({ min: 3, max: 5 }),
  ram_mb: fc.integer({ min: 0, max: 9 }),
  gpus: fc
    .array(fc.integer({ min: 0, max: 8 }), { maxLength: 2 })
    .map((all) => all.map((vramMb, id) => ({ id, vram_mb: vramMb, tags: [] }))),
});
const tags = fc.subarray(['gpu', 'eu']);
const workerKind: fc.Arbitrary<WorkerKind> = fc.record({
  resources,
  tags,
  capabilities: fc.subarray(['env', 'else']),
});
const options: fc.Arbitrary<Options> = fc.oneof(
  fc.constant({}),
  fc.record(
    {
      selector: tags,
      env: fc.constant({ A: 'a' }),
      concurrency: fc.record({
        key: fc.constantFrom('k', 'l'),
        limit: fc.integer({ min: 1, max: 2 }),
      }),
    },
    { requiredKeys: [] },
  ),
);
const anyWorker = fc.constantFrom(...WORKERS);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('create'), constraints, priority: amount(2), options }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('claim'), worker: anyWorker }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('end'), nth: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('drain', 'resume'), worker: anyWorker }) },
);
const story: fc.Arbitrary<Story> = fc.record({
  workers: fc.array(workerKind, { minLength: WORKERS.length, maxLength: WORKERS.length }),
  steps: fc.array(step, { minLength: 15, maxLength: 25 }),
});

const creation = (cpu: number, priority: number): Step => ({
  do: 'create',
  constraints: { cpu, ram_mb: 0, vram_mb: 0 },
  priority,
});

/** A worker is kept free for the run that wants all of it, and later gets it. */
const KEEPING: Story = {
  workers: [4, 1, 1].map((cores) => ({
    resources: { cpu_cores: cores, ram_mb: 1, gpus: [] },
    tags: [],
    capabilities: [],
  })),
  steps: [
    creation(1, 2),
    creation(4, 1),
    creation(1, 0),
    { do: 'claim', worker: 'w0' },
    creation(1, 0),
    { do: 'claim', worker: 'w0' },
    { do: 'claim', worker: 'w0' },
    { do: 'claim', worker: 'w1' },
    ...Array.from({ length: 3 }, (): Step => ({ do: 'end', nth: 0 })),
    { do: 'claim', worker: 'w0' },
  ],
};

for (const scheduler of ['direct', 'fit']) {
  describe(`an explanation by the strategy ${scheduler}`, () => {
    let service: TestApp;
    let steps: RunSteps;
    let claims = 0;
    let reservations = 0;

    beforeAll(async () => {
      // A run is kept a worker for as soon as it has been passed over, so that stories of a few steps get there.
      service = await startTestApp({
        env: { SERVICE_SCHEDULER: scheduler, SERVICE_FIT_RESERVE_AFTER: '0', SERVICE_WORKER_TIMEOUT: '3600' },
      });
      steps = new RunSteps(service.send);
    });
    afterAll(() => service.close());

    async function explain(id: string): Promise<any> {
      return bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    }

    async function listed(state: string): Promise<any[]> {
      return (await service.send('GET', `/runs?limit=100&state=${state}`)).body.data;
    }

    async function endEverything(): Promise<void> {
      for (const state of ['PENDING', 'ASSIGNED']) {
        for (const { id } of await listed(state)) await service.send('POST', `/runs/${id}/cancel`);
      }
      for (const worker of WORKERS) await service.send('POST', `/workers/${worker}/resume`);
    }

    /** Holds what is told of the shapes of pending runs against what the explanations said. */
    async function compareCapacity(pending: readonly any[], told: readonly any[]): Promise<void> {
      const { demand, supply } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
      assert.equal(demand.ready.runs, pending.length);
      const ready = demand.selectors.map((one: any) => one.ready.runs);
      assert.equal(
        ready.reduce((sum: number, runs: number) => sum + runs, 0),
        pending.length,
      );
      for (const [i, { constraints: asked, concurrency }] of pending.entries()) {
        const { counts, requirements } = told[i];
        const { workers } = demand.selectors.find(
          (one: any) =>
            one.selector.join() === requirements.selector.toSorted().join() &&
            one.capabilities.join() === requirements.capabilities.join(),
        );
        assert.ok(workers >= counts.able_ever, 'workers that match');
        if (requirements.selector.length + requirements.capabilities.length > 0 || concurrency) continue;
        assert.equal(workers, counts.active - counts.draining);
        const shape = demand.shapes.find((one: any) =>
          (['cpu', 'ram_mb', 'vram_mb'] as const).every((name) => one[name] === asked[name]),
        );
        const isAnyOpen = counts.active > counts.draining;
        assert.equal(shape.placeable, isAnyOpen ? counts.able_ever > 0 : null);
        // By `direct` a worker that holds a run could get more if it claimed; who is kept free is told apart.
        if (scheduler !== 'fit' || supply.workers.reserved > 0 || !isAnyOpen) continue;
        assert.equal(shape.can_start_now > 0, counts.able_now > 0);
      }
    }

    /** Claims, and holds what comes against what the explanations said. */
    async function claimAsExplained(worker: string): Promise<void> {
      const pending = await listed('PENDING');
      const told = await Promise.all(pending.map(({ id }) => explain(id)));
      await compareCapacity(pending, told);
      const canTake = new Map<string, boolean>(
        told.map(({ run_id: id, workers, counts }) => {
          const able = workers.filter((one: any) => one.can_take_now);
          assert.equal(counts.able_now, able.length);
          return [id, able.some((one: any) => one.id === worker)];
        }),
      );
      reservations += told.filter(({ queue }) => queue.reserved_for !== null).length;
      const got = (await steps.claim(worker)).map(({ id }) => id);
      claims += 1;
      for (const id of got) assert.equal(canTake.get(id), true, `${id} was said to be possible`);
      const head = told.find(({ queue }) => queue.position === 1);
      if (head) assert.equal(got.includes(head.run_id), canTake.get(head.run_id), 'the head of the queue');
      // What was said to be possible and did not come was kept away by what came before it, so something came, unless
      // the worker was kept free by this very claim.
      const draining = told.flatMap(({ workers }) => workers.filter((one: any) => one.draining));
      const mayBeKept = told.some(({ queue }) => {
        const isKept = queue.reserved_for !== null && !draining.some(({ id }) => id === queue.reserved_for);
        return queue.passed_over_at !== null && !isKept;
      });
      if (!mayBeKept && [...canTake.values()].some(Boolean)) assert.notDeepEqual(got, []);
    }

    test('says of each worker what its next claim then does', async () => {
      await fc.assert(
        fc.asyncProperty(story, async ({ workers, steps: told }) => {
          await endEverything();
          for (const [i, id] of WORKERS.entries()) await steps.heartbeat(id, { ...workers[i] });
          for (const one of told) {
            if (one.do === 'create') {
              await steps.create({
                constraints: one.constraints,
                priority: one.priority,
                ...one.options,
              });
            } else if (one.do === 'claim') {
              await claimAsExplained(one.worker);
            } else if (one.do === 'end') {
              const held = await listed('ASSIGNED');
              const ended = held[one.nth % Math.max(1, held.length)];
              if (ended) await steps.event(ended.id, 'COMPLETED');
            } else {
              await service.send('POST', `/workers/${one.worker}/${one.do}`);
            }
          }
        }),
        { numRuns: atDepth({ fast: 2, all: 12 }), endOnFailure: true, examples: [[KEEPING]] },
      );
      assert.ok(claims > atDepth({ fast: 5, all: 50, soak: 50 }), `${claims} claims`);
      if (scheduler === 'fit') assert.ok(reservations > 0, 'workers were kept free on the way');
    });
  });
}

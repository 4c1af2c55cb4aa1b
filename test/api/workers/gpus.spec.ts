import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { until } from '../../support/app/passing-time.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

type Gpu = readonly [vramMb: number, ...tags: string[]];

/** What a worker that can give whole GPUs has. */
const has = (...gpus: readonly Gpu[]): Record<string, unknown> => ({
  resources: {
    cpu_cores: 64,
    ram_mb: 1000,
    gpus: gpus.map(([vramMb, ...tags], id) => ({ id, vram_mb: vramMb, tags })),
  },
  capabilities: ['gpus'],
});
const EIGHT = has(...Array.from({ length: 8 }, (): Gpu => [80, 'a100']));

describe('whole GPUs', () => {
  const env = { SERVICE_SCHEDULER: 'fit', SERVICE_FIT_RESERVE_AFTER: '0', SERVICE_WORKER_TIMEOUT: '600' };
  const service = useTestApp({ env });
  const steps = new RunSteps(service.send);

  afterEach(async () => {
    for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
      const { data } = (await service.send('GET', `/runs?limit=100&state=${state}`)).body;
      for (const { id } of data) await service.send('POST', `/runs/${id}/cancel`);
    }
    // Their programs have ended.
    await until(
      async () => {
        for (const { id, resources } of (await service.send('GET', '/workers')).body)
          await steps.heartbeat(id, { resources, capabilities: ['gpus'], running_ops: [] });
        return (await service.send('GET', '/capacity')).body.supply.gpus;
      },
      ({ free, total }) => free === total,
    );
  });

  const explain = async (id: string): Promise<any> =>
    bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');

  test('are the smallest that suffice, and named in the claim, the run and its attempt', async () => {
    await steps.heartbeat('mixed', has([80], [24], [40], [40]));
    const asked = { constraints: { gpus: 2, vram_mb: 30 }, retry_policy: { max_attempts: 2 } };
    const { id } = await steps.create(asked);
    const [op] = await steps.claim('mixed');
    const constraints = { ram_mb: 0, vram_mb: 30, cpu: 0, gpus: 2, gpu_id: 2, gpu_ids: [2, 3] };
    assert.deepEqual(op.constraints, constraints);
    await steps.event(id, 'STARTED', { worker_id: 'mixed' });
    const run = await steps.get(id);
    assert.deepEqual(run.constraints, constraints);
    const [attempt] = await steps.attempts(id);
    for (const { execution_summary: summary } of [run, attempt])
      assert.deepEqual([summary.gpu_id, summary.gpu_ids], [2, [2, 3]]);
    assert.deepEqual(attempt.constraints, constraints);

    const { constraints: next } = await steps.event(id, 'FAILED');
    assert.deepEqual([next.gpu_id, 'gpu_ids' in next], [null, false], 'the next attempt has none yet');
    assert.deepEqual(
      (await steps.attempts(id))[0].constraints,
      constraints,
      'the one that ended keeps its own',
    );
  });

  test('are shared with no other run, whether it asks for whole GPUs or for memory', async () => {
    await steps.heartbeat('two', has([40], [40]));
    const share = await steps.create({ constraints: { vram_mb: 1 } });
    assert.equal((await steps.claim('two'))[0].id, share.id);
    const whole = await steps.create({ constraints: { gpus: 1 } });
    assert.deepEqual((await steps.claim('two'))[0].constraints.gpu_ids, [1]);
    const more = await steps.create({ constraints: { vram_mb: 39 } });
    const [op] = await steps.claim('two');
    assert.deepEqual([op.id, op.constraints.gpu_id, 'gpu_ids' in op.constraints], [more.id, 0, false]);
    await steps.create({ constraints: { vram_mb: 1 } });
    assert.deepEqual(await steps.claim('two'), []);
    await steps.event(whole.id, 'COMPLETED');
    assert.equal((await steps.claim('two'))[0].constraints.gpu_id, 1);
  });

  test('that a worker reports as used by a run are not given to others, those that it does not use are', async () => {
    await steps.heartbeat('three', has([40], [40], [40]));
    const first = await steps.create({ constraints: { gpus: 1 } });
    assert.deepEqual((await steps.claim('three'))[0].constraints.gpu_ids, [0]);
    const run = await steps.event(first.id, 'STARTED', { worker_id: 'three', gpu_id: 2, gpu_ids: [2] });
    assert.deepEqual([run.constraints.gpu_id, run.constraints.gpu_ids], [2, [2]]);
    await steps.create({ constraints: { gpus: 2 } });
    assert.deepEqual((await steps.claim('three'))[0].constraints.gpu_ids, [0, 1]);
  });

  test('of STARTED are a list of integers, with or without gpu_id', async () => {
    await steps.heartbeat('w', has([40], [40]));
    const { id } = await steps.create();
    await steps.claimUntil(id, 'w');
    for (const gpu_ids of ['0', [0.5], ['0'], Array(65).fill(0), {}]) {
      const body = { type: 'STARTED', msg: '', payload: { worker_id: 'w', gpu_ids } };
      assertInvalid(await steps.report(id, body), ['payload.gpu_ids must be a list of at most 64 integers']);
    }
    const none = await steps.event(id, 'STARTED', { worker_id: 'w', gpu_ids: [] });
    assert.deepEqual([none.constraints.gpu_id, 'gpu_ids' in none.constraints], [null, false]);
    const { constraints } = await steps.event(id, 'STARTED', { worker_id: 'w', gpu_ids: [1, 0] });
    assert.deepEqual([constraints.gpu_id, constraints.gpu_ids], [1, [1, 0]]);
  });

  test('have the tags of the run, and explain names those that no GPU has', async () => {
    await steps.heartbeat('tagged', has([40, 'ada'], [40, 'a100', 'pcie'], [40, 'a100', 'nvlink']));
    await steps.create({ constraints: { gpus: 1, gpu_selector: ['a100', 'nvlink'] } });
    const [op] = await steps.claim('tagged');
    assert.deepEqual([op.constraints.gpu_ids, op.constraints.gpu_selector], [[2], ['a100', 'nvlink']]);
    const { id } = await steps.create({ constraints: { gpus: 1, gpu_selector: ['h200'] } });
    assert.deepEqual(await steps.claim('tagged'), []);
    const { summary, requirements, workers } = await explain(id);
    assert.match(summary, /no GPU of an active worker has the tag h200/);
    assert.deepEqual(requirements.gpu_selector, ['h200']);
    const { obstacles } = workers.find((worker: any) => worker.id === 'tagged');
    assert.deepEqual(obstacles[0], {
      resource: 'gpu_selector',
      needed: 1,
      free: 0,
      total: 0,
      missing: ['h200'],
    });
  });

  test('are not kept from other runs by any number of runs for other GPUs', async () => {
    await steps.heartbeat('adas', has([40, 'ada']));
    for (let n = 0; n < 130; n += 1)
      await steps.create({ priority: 5, constraints: { gpus: 1, gpu_selector: ['h200'] } });
    const { id } = await steps.create({ constraints: { gpus: 1 } });
    assert.equal((await steps.claim('adas'))[0]?.id, id);
  });

  test('are kept free for a run that needs all of a worker, which small runs would not let start', async () => {
    await steps.heartbeat('eight', EIGHT);
    const small = { constraints: { gpus: 1, gpu_selector: ['a100'] } };
    const busy = await Promise.all([steps.create(small), steps.create(small)]);
    assert.equal((await steps.claim('eight')).length, 2);
    const { id } = await steps.create({ constraints: { gpus: 8 }, priority: 1 });
    await steps.create(small);
    await steps.claim('eight');
    const { workers } = await explain(id);
    const { obstacles } = workers.find((worker: any) => worker.id === 'eight');
    assert.deepEqual(
      obstacles.find(({ resource }: any) => resource === 'gpus'),
      { resource: 'gpus', needed: 8, free: 5, total: 8 },
    );
    const late = await steps.create(small);
    assert.deepEqual(await steps.claim('eight'), [], 'the worker is reserved');
    const held = (await service.send('GET', '/runs?limit=100&state=ASSIGNED')).body.data;
    for (const run of held) await steps.event(run.id, 'COMPLETED');
    assert.ok(held.length > busy.length);
    const [op] = await steps.claim('eight');
    assert.deepEqual([op.id, op.constraints.gpu_ids], [id, [0, 1, 2, 3, 4, 5, 6, 7]]);
    await steps.event(id, 'COMPLETED');
    assert.equal((await steps.claim('eight'))[0].id, late.id);
  });

  test('are counted in the report about capacity, demand and supply', async () => {
    await steps.heartbeat('counted', EIGHT);
    await steps.create({ constraints: { gpus: 2, vram_mb: 30, gpu_selector: ['a100'] } });
    const before = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    const [shape] = before.demand.shapes;
    assert.deepEqual([shape.gpus, shape.vram_mb, shape.placeable], [2, 30, true]);
    assert.deepEqual([before.demand.ready.gpus, before.demand.ready.vram_mb], [2, 60]);
    const [requirement] = before.demand.selectors;
    assert.deepEqual(
      [requirement.capabilities, requirement.gpu_selector, requirement.workers],
      [['gpus'], ['a100'], 3],
    );
    await steps.claim('counted');
    const { supply, demand } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    const idle = before.supply.gpus.free;
    assert.equal(idle - supply.gpus.free, 2);
    assert.equal(demand.in_execution.gpus, 2);
  });

  test('are never given twice by two processes at once', async () => {
    const pooled = {
      SERVICE_SCHEDULER: 'fit',
      SERVICE_WORKER_POOL: 'shared',
      SERVICE_REAPER_INTERVAL: '3600',
    };
    const first = await startTestApp({ env: pooled });
    const second = await startTestApp({ env: pooled, database: first.database });
    const [here, there] = [new RunSteps(first.send), new RunSteps(second.send)];
    try {
      await here.heartbeat('w', has([40], [40], [40], [40]));
      for (let round = 0; round < 10; round += 1) {
        const wishes = Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? { gpus: 1 } : { vram_mb: 20 }));
        await Promise.all(wishes.map((constraints) => here.create({ constraints })));
        const claims = Array.from({ length: 6 }, (_, n) => (n % 2 === 0 ? here : there).claim('w'));
        const ops = (await Promise.all(claims)).flat();
        const whole = ops.flatMap(({ constraints }) => constraints.gpu_ids ?? []);
        const shared = ops.flatMap(({ constraints }) => (constraints.gpu_ids ? [] : constraints.gpu_id));
        assert.equal(new Set(whole).size, whole.length, `round ${round}: ${whole.join()}`);
        assert.ok(
          !shared.some((id) => whole.includes(id)),
          `round ${round}: ${whole.join()}; ${shared.join()}`,
        );
        assert.ok(ops.length >= 4);
        await Promise.all(ops.map(({ id }) => here.event(id, 'COMPLETED')));
      }
    } finally {
      await second.close();
      await first.close();
    }
  });
});

test('by the strategy direct, runs that ask for whole GPUs go only to workers that announce the capability', async () => {
  const service = await startTestApp();
  const steps = new RunSteps(service.send);
  try {
    await steps.heartbeat('able', EIGHT);
    await steps.heartbeat('other', { ...EIGHT, capabilities: [] });
    await steps.heartbeat('untagged', has([80]));
    const { id } = await steps.create({ constraints: { gpus: 1, gpu_selector: ['a100'] } });
    assert.deepEqual(await steps.claim('other'), []);
    assert.deepEqual(await steps.claim('untagged'), []);
    const [op] = await steps.claim('able');
    assert.deepEqual([op.id, op.constraints.gpu_id, 'gpu_ids' in op.constraints], [id, null, false]);
    const { execution_summary: summary } = await steps.event(id, 'STARTED', {
      worker_id: 'able',
      gpu_id: 5,
      gpu_ids: [5],
    });
    assert.deepEqual([summary.gpu_id, summary.gpu_ids], [5, [5]]);
  } finally {
    await service.close();
  }
});

describe('by the strategy direct, runs that ask for whole GPUs go only to workers that have them at all', () => {
  const service = useTestApp({});
  const steps = new RunSteps(service.send);

  const explain = async (id: string): Promise<any> =>
    bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');

  for (const [title, gpus, lacking, total] of [
    ['no GPU', [], 'no active worker has 2 GPUs of 30 MB or more with the tag a100', 0],
    ['too few', [[40, 'a100']], 'no active worker has 2 GPUs of 30 MB or more with the tag a100', 1],
    [
      'too small ones',
      [
        [40, 'a100'],
        [20, 'a100'],
      ],
      'no active worker has 2 GPUs of 30 MB or more with the tag a100',
      1,
    ],
  ] as [string, Gpu[], string, number][]) {
    test(`not to one that has ${title}, and explain says so`, async () => {
      const wanted = { gpus: 2, vram_mb: 30, gpu_selector: total === 0 ? [] : ['a100'] };
      await steps.heartbeat('bare', has(...gpus));
      const { id } = await steps.create({ constraints: wanted });
      const plain = await steps.create({ priority: -1 });
      assert.deepEqual(
        (await steps.claim('bare')).map((op: any) => op.id),
        [plain.id],
        'it delays no other run',
      );
      const { summary, workers, counts } = await explain(id);
      const words = total === 0 ? lacking.replace(' with the tag a100', '') : lacking;
      assert.ok(summary.includes(words), summary);
      assert.deepEqual(workers[0].obstacles, [{ resource: 'gpus', needed: 2, free: total, total }]);
      assert.deepEqual([workers[0].can_take_now, workers[0].could_ever, counts.able_ever], [false, false, 0]);
      const { demand } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
      const selector = demand.selectors.find(({ gpus: count }: any) => count > 0);
      assert.deepEqual(
        [selector.gpus, selector.gpu_vram_mb, selector.workers, selector.lacking],
        [2, 30, 0, words],
      );

      await steps.heartbeat('bare', has([40, 'a100'], [30, 'a100']));
      assert.deepEqual(
        (await steps.claim('bare')).map((op: any) => op.id),
        [id],
        'it gets the run once it has them, in use or not',
      );
      for (const run of [id, plain.id]) await service.send('POST', `/runs/${run}/cancel`);
    });
  }

  test('nor does a claim that waits while the worker loses them', async () => {
    await steps.heartbeat('bare', has([40]));
    const waiting = service.send('POST', '/workers/bare/claim?wait=20', {});
    await steps.heartbeat('bare', has());
    const { id } = await steps.create({ constraints: { gpus: 1 } });
    const plain = await steps.create({});
    assert.deepEqual(
      (await waiting).body.ops.map((op: any) => op.id),
      [plain.id],
    );
    for (const run of [id, plain.id]) await service.send('POST', `/runs/${run}/cancel`);
  });
});

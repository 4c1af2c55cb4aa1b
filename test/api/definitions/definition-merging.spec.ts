import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const DEFINED = {
  constraints: { ram_mb: 100, cpu_millis: 1500, cpu_limit_millis: 3000, shm_mb: 50 },
  timeouts: { start_within_s: 60, attempt_s: 600 },
  event_delivery: { topic: 'topic', attributes: { team: 'vision', stage: 'train' } },
};
const SHOWN = { vram_mb: 0, gpu_id: null, ...DEFINED.constraints, cpu: 2 };

describe('a run of a definition', () => {
  const service = useTestApp();

  beforeAll(async () => {
    for (const body of [
      { id: 'full', version: '1', image: 'i', ...DEFINED },
      { id: 'whole', version: '1', image: 'i', constraints: { cpu: 4 } },
      { id: 'bare', version: '1', image: 'i' },
    ])
      assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
  });

  const runOf = (definition: string, body: object): Promise<TestAnswer> =>
    service.send('POST', `/definitions/${definition}/runs`, { body });

  for (const [title, given, constraints] of [
    ['none', {}, SHOWN],
    ['null for each', { constraints: { ram_mb: null, cpu: null, cpu_millis: null } }, SHOWN],
    ['RAM', { constraints: { ram_mb: 200 } }, { ...SHOWN, ram_mb: 200 }],
    ['GPU memory', { constraints: { vram_mb: 9 } }, { ...SHOWN, vram_mb: 9 }],
    ['thousandths of a CPU', { constraints: { cpu_millis: 250 } }, { ...SHOWN, cpu: 1, cpu_millis: 250 }],
  ] as const) {
    test(`has the constraints of the definition where it gives ${title}, field by field`, async () => {
      assert.deepEqual(bodyOf(await runOf('full', given), 'OpRun', 201).constraints, constraints);
    });
  }

  test('replaces cpu_millis of the definition by its cpu, and cpu by its cpu_millis', async () => {
    const { cpu_millis: _, ...whole } = SHOWN;
    const [cpus, millis] = [{ constraints: { cpu: 3 } }, { constraints: { cpu_millis: 500 } }];
    assert.deepEqual(bodyOf(await runOf('full', cpus), 'OpRun', 201).constraints, { ...whole, cpu: 3 });
    const none = { ram_mb: 0, vram_mb: 0, gpu_id: null };
    assert.deepEqual(bodyOf(await runOf('whole', millis), 'OpRun', 201).constraints, {
      ...none,
      cpu: 1,
      cpu_millis: 500,
    });
  });

  test('is refused with constraints that contradict those of the definition', async () => {
    assertInvalid(await runOf('full', { constraints: { cpu: 4, ram_mb: 40 } }), [
      'constraints.cpu_limit_millis must be 0 or at least what is requested, 4000',
      'constraints.shm_mb must be at most ram_mb, 40',
    ]);
  });

  test('has the timeouts of the definition where it gives none, field by field', async () => {
    for (const [given, timeouts] of [
      [{}, DEFINED.timeouts],
      [{ timeouts: { attempt_s: 5, start_within_s: null } }, { start_within_s: 60, attempt_s: 5 }],
    ] as const)
      assert.deepEqual(bodyOf(await runOf('full', given), 'OpRun', 201).timeouts, timeouts);
    const run = bodyOf(await runOf('bare', { timeouts: { attempt_s: 7 } }), 'OpRun', 201);
    assert.deepEqual(run.timeouts, { attempt_s: 7 });
  });

  test('has the retry policy of the definition where it gives null', async () => {
    const body = { id: 'retried', version: '1', image: 'i', retry_policy: { max_attempts: 4 } };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    const run = bodyOf(await runOf('retried', { retry_policy: { max_attempts: null } }), 'OpRun', 201);
    assert.deepEqual(run.retry_policy, { max_attempts: 4 });
  });

  test('has the attributes of the definition and its own, which win, with the topic of the definition', async () => {
    const event_delivery = { attributes: { stage: 'test', seed: '1' } };
    const run = bodyOf(await runOf('full', { event_delivery }), 'OpRun', 201);
    assert.deepEqual(run.event_delivery, {
      topic: 'topic',
      attributes: { team: 'vision', stage: 'test', seed: '1' },
    });
    assertInvalid(await runOf('bare', { event_delivery }), [
      'event_delivery.attributes must be absent for a definition without a topic',
    ]);
    assertInvalid(await runOf('full', { event_delivery: { topic: 'other' } }), [
      'event_delivery.topic is not a known field',
    ]);
  });

  test('is refused with everything that does not fit the definition at once', async () => {
    const input_specs = { a: { type: 'string', required: true }, b: { type: 'integer' } };
    const body = { id: 'checked', version: '1', image: 'i', input_specs };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    const others = {
      retry_policy: { grow: { ram_mb: { factor: 2, max: 100 } } },
      event_delivery: { attributes: { team: 'a' } },
    };
    const problems = [
      'retry_policy.grow.ram_mb.factor needs constraints.ram_mb, which it multiplies, above 0',
      'event_delivery.attributes must be absent for a definition without a topic',
    ];
    const { status, body: answer } = await runOf('checked', { ...others, inputs: { b: 'x' } });
    assert.equal(status, 400);
    assert.deepEqual(answer.errors, ['inputs.a is required', 'inputs.b must be an integer', ...problems]);
    assertInvalid(await runOf('checked', { ...others, inputs: { a: 'x' } }), problems);
  });
});

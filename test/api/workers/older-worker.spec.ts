import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { OPTION_DECLARATIONS } from '../../../src/runs/options/option-declarations.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** What a heartbeat of interface.md says beside the id. */
const OFFER = {
  resources: { cpu_cores: 8, ram_mb: 16_000, gpus: [{ id: 0, vram_mb: 24_000, tags: ['l4'] }] },
  tags: ['eu'],
  running_ops: [],
};

/** What a run may ask for that interface.md does not have, and that a worker must know how to carry out. */
const EXTENSIONS: readonly (readonly [about: string, body: Record<string, unknown>])[] = [
  ...Object.entries(OPTION_DECLARATIONS).map(
    ([name, { example }]) => [`the option ${name}`, { [name]: example }] as const,
  ),
  ['less than a core', { constraints: { cpu_millis: 500 } }],
  ['more CPU than its request', { constraints: { cpu: 1, cpu_limit_millis: 2000 } }],
  ['a whole GPU', { constraints: { gpus: 1 } }],
  ['a GPU with a tag', { constraints: { vram_mb: 1, gpu_selector: ['l4'] } }],
  ['the size of /dev/shm', { constraints: { shm_mb: 64 } }],
];

for (const scheduler of ['direct', 'fit']) {
  describe(`a worker that knows interface.md and decisions.md alone, with the strategy ${scheduler}`, () => {
    const service = useTestApp({ env: { SERVICE_SCHEDULER: scheduler } });
    const steps = new RunSteps(service.send);

    test('gets a plain run as these pages show it, and reports it as they say', async () => {
      await steps.heartbeat('w', OFFER);
      const constraints = { ram_mb: 100, vram_mb: 50, cpu: 2 };
      const asked = { constraints, inputs: { a: 1 }, retry_policy: { max_attempts: 2 } };
      const { id } = await steps.create(asked);
      const given = { ...constraints, gpu_id: scheduler === 'fit' ? 0 : null };
      const op = { id, image: 'image', inputs: asked.inputs, constraints: given };
      assert.deepEqual(await steps.claim(), [{ ...op, attempt: 1 }]);
      await steps.heartbeat('w', { ...OFFER, running_ops: [op] });
      await steps.event(id, 'STARTED', { worker_id: 'w', gpu_id: 0 });
      assert.equal((await steps.event(id, 'PROGRESS', undefined, 40)).progress, 40);
      assert.equal((await steps.event(id, 'FAILED', { error_message: 'why' })).state, 'PENDING');
      assert.deepEqual(await steps.claim(), [{ ...op, attempt: 2 }]);
      await steps.event(id, 'STARTED', { worker_id: 'w' });
      const ended = await steps.event(id, 'COMPLETED', { outputs: { b: 2 } });
      assert.deepEqual([ended.state, ended.outputs], ['COMPLETED', { b: 2 }]);
    });

    test('gets a run whose other fields need nothing of it, with the same members', async () => {
      await steps.heartbeat('w', OFFER);
      const { id } = await steps.create({
        name: 'nightly',
        labels: { team: 'vision' },
        selector: ['eu'],
        concurrency: { key: 'k', limit: 1 },
        timeouts: { attempt_s: 60 },
        retry_policy: { max_attempts: 2, retry_on: ['exit'] },
        event_delivery: { topic: 't' },
      });
      const [{ name: _name, labels: _labels, ...op }] = await steps.claim();
      const constraints = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };
      assert.deepEqual(op, { id, image: 'image', inputs: {}, constraints, attempt: 1 });
      await steps.event(id, 'COMPLETED', {});
    });

    for (const [about, body] of EXTENSIONS) {
      test(`gets no run that asks for ${about}: it waits, and plain ones after it do not`, async () => {
        await steps.heartbeat('w', OFFER);
        const waiting = await steps.create({ priority: 1, ...body });
        const plain = await steps.create();
        assert.deepEqual(
          (await steps.claim()).map(({ id }) => id),
          [plain.id],
        );
        assert.deepEqual(await steps.claim(), []);
        const { requirements } = bodyOf(
          await service.send('GET', `/runs/${waiting.id}/explain`),
          'RunExplanation',
        );
        assert.notDeepEqual(requirements.capabilities, []);
        for (const { id } of [waiting, plain]) await service.send('POST', `/runs/${id}/cancel`);
      });
    }
  });
}

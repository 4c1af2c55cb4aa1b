import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const LARGEST = 2 ** 31 - 1;
const NONE = { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null };

/** What is sent, what is shown beside {@link NONE}, and the capabilities that a worker needs. */
const TAKEN: readonly (readonly [title: string, sent: object, shown: object, needed: readonly string[]])[] = [
  ['half a CPU', { cpu_millis: 500 }, { cpu: 1, cpu_millis: 500 }, ['cpu_millis']],
  ['one thousandth', { cpu_millis: 1 }, { cpu: 1, cpu_millis: 1 }, ['cpu_millis']],
  ['whole CPUs in thousandths', { cpu_millis: 2000 }, { cpu: 2, cpu_millis: 2000 }, []],
  ['both, which agree', { cpu: 3, cpu_millis: 2001 }, { cpu: 3, cpu_millis: 2001 }, ['cpu_millis']],
  ['the most', { cpu_millis: LARGEST }, { cpu: 2_147_484, cpu_millis: LARGEST }, ['cpu_millis']],
  ['a limit that is the request', { cpu: 2, cpu_limit_millis: 2000 }, { cpu: 2, cpu_limit_millis: 2000 }, []],
  ['a higher limit', { cpu: 2, cpu_limit_millis: 2500 }, { cpu: 2, cpu_limit_millis: 2500 }, ['cpu_millis']],
  ['no limit', { cpu: 2, cpu_limit_millis: 0 }, { cpu: 2, cpu_limit_millis: 0 }, ['cpu_millis']],
  ['a limit alone', { cpu_limit_millis: 1 }, { cpu_limit_millis: 1 }, ['cpu_millis']],
  ['no limit and no request', { cpu_limit_millis: 0 }, { cpu_limit_millis: 0 }, []],
  ['shared memory', { ram_mb: 64, shm_mb: 64 }, { ram_mb: 64, shm_mb: 64 }, ['shm']],
  ['shared memory without a limit of RAM', { shm_mb: LARGEST }, { shm_mb: LARGEST }, ['shm']],
  ['whole GPUs', { gpus: 2 }, { gpus: 2 }, ['gpus']],
  ['no GPU', { gpus: 0, gpu_selector: [] }, { gpus: 0, gpu_selector: [] }, []],
  [
    'null for each',
    { cpu_millis: null, cpu_limit_millis: null, gpus: null, gpu_selector: null, shm_mb: null },
    {},
    [],
  ],
];

describe('constraints', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  for (const [title, sent, shown, needed] of TAKEN) {
    test(`may be ${title}, which only workers that can do it get, and are shown as they were given`, async () => {
      const constraints = { ...NONE, ...shown };
      const { id } = await steps.create({ constraints: sent, priority: LARGEST });
      assert.deepEqual((await steps.get(id)).constraints, constraints);
      const { requirements } = bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
      assert.deepEqual(requirements.capabilities, needed);
      await steps.heartbeat('plain', { capabilities: [] });
      const gpus = Array.from({ length: Number(Reflect.get(shown, 'gpus') ?? 0) }, (_, index) => ({
        id: index,
        vram_mb: 1,
        tags: [],
      }));
      const resources = { cpu_cores: 1, ram_mb: 1, gpus };
      await steps.heartbeat('able', { capabilities: needed, resources });
      if (needed.length > 0) assert.deepEqual(await steps.claim('plain'), []);
      const [op] = await steps.claim('able');
      assert.deepEqual([op.id, op.constraints], [id, constraints]);
      const [attempt] = bodyOf(await service.send('GET', `/runs/${id}/attempts`), 'OpAttempts');
      assert.deepEqual(attempt.constraints, constraints);
    });
  }
});

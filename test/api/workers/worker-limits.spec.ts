import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const GPU_TAGS = Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(20, 'x'));

for (const pool of ['memory', 'shared'] as const) {
  describe(`limits of registered workers, pool ${pool}`, () => {
    const service = useTestApp({
      env: { SERVICE_WORKER_POOL: pool, SERVICE_MAX_WORKERS: '2', SERVICE_MAX_WORKER_BYTES: '4096' },
    });
    const steps = new RunSteps(service.send);

    function beat(
      id: string,
      gpuTags: readonly string[] = [],
      capabilities: readonly string[] = [],
    ): Promise<TestAnswer> {
      const gpus = [{ id: 0, vram_mb: 1, tags: gpuTags }];
      const body = { worker_id: id, resources: { cpu_cores: 1, ram_mb: 1, gpus }, tags: [], capabilities };
      return service.send('POST', '/workers/heartbeat', { body });
    }

    test('an invented worker is refused when the pool is full, and those that are known go on', async () => {
      for (const id of ['a', 'b', 'a', 'b']) assert.equal((await beat(id)).status, 200);
      for (const id of ['c', 'd']) {
        const refused = await beat(id);
        assertError(refused, 503, '2 workers are registered already (SERVICE_MAX_WORKERS)');
        assert.equal(refused.headers.get('retry-after'), '10');
      }
      const { text } = await service.send('GET', '/metrics');
      assert.match(text, /^longshore_refused_total\{limit="SERVICE_MAX_WORKERS"\} 2$/m);
      const { id } = await steps.create();
      assert.deepEqual(
        (await steps.claim('a')).map((op) => op.id),
        [id],
      );
      assert.equal((await service.send('GET', '/workers')).body.length, 2);
    });

    test('capabilities count for the bytes of a worker', async () => {
      const names = Array.from({ length: 1000 }, (_, i) => `volume:${i}`.padEnd(128, 'x'));
      assert.equal((await beat('a', [], names.slice(0, 20))).status, 200);
      assertError(
        await beat('a', [], names),
        429,
        'The GPUs, tags, capabilities and reasons are larger than 4096 bytes (SERVICE_MAX_WORKER_BYTES)',
      );
      const [worker] = (await service.send('GET', '/workers?limit=1')).body;
      assert.deepEqual(worker.capabilities, names.slice(0, 20));
    });

    test('a worker of too many bytes is refused, and stays as it was', async () => {
      assert.equal((await beat('a', ['gpu'])).status, 200);
      const refused = await beat('a', GPU_TAGS);
      assertError(
        refused,
        429,
        'The GPUs, tags, capabilities and reasons are larger than 4096 bytes (SERVICE_MAX_WORKER_BYTES)',
      );
      assert.ok(Number(refused.headers.get('retry-after')) > 0);
      const [worker] = (await service.send('GET', '/workers?limit=1')).body;
      assert.deepEqual(worker.resources.gpus[0].tags, ['gpu']);
    });
  });
}

describe('with the default limits', () => {
  const service = useTestApp({ env: { SERVICE_MAX_WORKERS_PER_KEY: '2' } });
  const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
  const beat = (id: string, key: string, capabilities: readonly string[] = []): Promise<TestAnswer> =>
    service.send('POST', '/workers/heartbeat', {
      key,
      body: { worker_id: id, tags: [], resources, capabilities },
    });

  test('a worker has up to 1,000 capabilities of 128 characters', async () => {
    const names = Array.from({ length: 1001 }, (_, i) => `volume:${i}`.padEnd(128, 'x'));
    assert.equal((await beat('a', KEYS.admin, names.slice(1))).status, 200);
    assert.equal((await beat('a', KEYS.admin, names)).status, 400);
  });

  test('a key has as many workers as the setting says, and then 429 names it', async () => {
    for (const id of ['b', 'c']) assert.equal((await beat(id, KEYS.worker)).status, 200);
    assertError(
      await beat('d', KEYS.worker),
      429,
      '2 workers of this API key are registered already (SERVICE_MAX_WORKERS_PER_KEY)',
    );
    assert.equal((await beat('d', KEYS.admin)).status, 200);
  });
});

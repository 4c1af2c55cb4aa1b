import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { RunViews } from '../../support/runs/run-views.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { endWorker, isAlive, ScriptImages } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const BUDGET = { timeouts: { attempt_s: 2 } };
const TOO_LONG = 'Attempt ran longer than 2 s';
const FOR_EVER = 'while :; do sleep 0.2; done';

const forTests = await startTestEngine();

describe('an attempt that runs longer than its budget', () => {
  let service: ServiceProcess;
  let runs: RunViews;
  let images: ScriptImages;

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests' },
    });
    runs = new RunViews(senderTo(service.url, 'e2e-admin-key-of-the-tests'));
    images = await ScriptImages.make();
  });
  afterAll(async () => {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  const start = (id: string, env: Readonly<Record<string, string>> = {}) =>
    images.startWorker({ url: service.url, key: 'e2e-worker-key-of-the-tests', id, env });

  test('is stopped by its worker, and the run is FAILED with the reason', async () => {
    await images.add('endless', FOR_EVER);
    const worker = await start('budget');
    const id = await runs.create('endless', BUDGET);
    const run = await runs.untilState(id, 'FAILED', 'COMPLETED');
    const [pid = 0] = await images.startsOf('endless');
    await until(async () => !(await isAlive(pid)), 'the program is stopped');
    await endWorker(worker);
    assert.equal(run.execution_summary.error_message, TOO_LONG);
    assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 FAILED']);
    assert.doesNotMatch(worker.output, /not delivered|could not/);
  });

  test('is stopped, and the next attempt begins after its end, when the retry policy says so', async () => {
    const gate = images.gate('slow-once');
    await images.add('slow-once', `[ -e '${gate.path}' ] && exit 0; : >'${gate.path}'; ${FOR_EVER}`);
    const worker = await start('budget-retry');
    const id = await runs.create('slow-once', { ...BUDGET, retry_policy: { max_attempts: 2 } });
    await runs.untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual(await runs.timeline(id), [
      '1 STARTED',
      '1 FAILED',
      '1 RETRIED',
      '2 STARTED',
      '2 COMPLETED',
    ]);
    const [first = 0, second = 0] = await images.startsOf('slow-once');
    assert.ok(second > 0);
    assert.equal(await isAlive(first), false);
    await endWorker(worker);
  });

  test('has its container stopped and removed', skipFor(forTests.skip), async () => {
    const { engine } = forTests;
    const image = await engine.publishScript('endless-container', `trap 'exit 0' TERM; ${FOR_EVER}`);
    const worker = await start('budget-docker', {
      SERVICE_WORKER_RUNTIME: 'docker',
      DOCKER_HOST: engine.host,
      SERVICE_WORKER_LOCAL_REGISTRIES: 'true',
      SERVICE_WORKER_NETWORK: 'none',
    });
    const id = await runs.create(image, BUDGET);
    await runs.untilState(id, 'RUNNING');
    await until(async () => (await engine.containerIds()).length === 1, 'the container runs');
    const run = await runs.untilState(id, 'FAILED', 'COMPLETED');
    assert.equal(run.execution_summary.error_message, TOO_LONG);
    await until(async () => (await engine.containerIds()).length === 0, 'the container is gone');
    assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 FAILED']);
    await endWorker(worker);
  });
});

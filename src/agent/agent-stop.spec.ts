import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DOWN } from './testing/fake-service.js';
import { makeScene } from './testing/scene.js';
import { errorMessage, types } from './testing/timeline.js';

test('stops the container within two ticks after a cancel and reports nothing', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  run.state = 'CANCELLED';
  await scene.clock.pass(4000);
  assert.ok(container.stopped);
  await scene.clock.until(
    'container and folder are gone',
    () => container.removed && scene.folders().length === 0,
  );
  assert.deepEqual(types(run), ['STARTED']);
  await scene.end();
});

test('gives a pull up when its run is cancelled, even when the pull does not listen', async () => {
  const scene = makeScene();
  scene.runtime.onPull = () => new Promise(() => undefined);
  const run = scene.service.add('run-1');
  await scene.start();
  await scene.clock.until('pulling', () => scene.runtime.pulls.length === 1, 20);
  run.state = 'CANCELLED';
  await scene.clock.pass(4000);
  const later = scene.service.add('run-2');
  scene.runtime.onPull = async () => undefined;
  scene.runtime.onStart = (container) => container.end(0);
  await scene.reaches(later, 'COMPLETED');
  assert.deepEqual(types(run), []);
  assert.equal(scene.runtime.containers.length, 1);
  await scene.end();
});

test('starts no container when STARTED is refused with 409', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  scene.service.onCall = ({ event }) => {
    if (event?.type === 'STARTED') run.workerId = 'other';
    return undefined;
  };
  await scene.start();
  await scene.clock.until('STARTED is sent', () => scene.service.callsOf('postEvent').length === 1, 20);
  await scene.clock.until('the folder is gone', () => scene.folders().length === 0, 20);
  assert.equal(scene.runtime.containers.length, 0);
  assert.equal(scene.service.callsOf('postEvent').length, 1);
  await scene.end();
});

test('stops the container of an attempt that another one has superseded', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  Object.assign(run, { attempt: 2, state: 'RUNNING' });
  await scene.clock.pass(4000);
  assert.ok(container.stopped);
  await scene.end();
  assert.deepEqual(types(run), ['STARTED']);
});

test('stops when a log event is refused because the run has ended', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_TICK: '3600' } });
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  run.state = 'CANCELLED';
  container.print('{"type":"NOTE","msg":"still there"}');
  await scene.clock.until('stopped', () => container.stopped && container.removed);
  assert.deepEqual(types(run), ['STARTED']);
  await scene.end();
});

test('on shutdown lets its runs end within the drain time, claims no more, and ends with 0', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  scene.agent.shutDown();
  scene.agent.shutDown();
  const next = scene.service.add('run-2');
  await scene.clock.pass(20_000);
  assert.equal(container.stopped, false);
  assert.equal(scene.exitCode(), null);
  const beats = scene.service.callsOf('heartbeat').length;
  await scene.clock.pass(5000);
  assert.ok(scene.service.callsOf('heartbeat').length > beats);
  container.end(0);
  await scene.reaches(run, 'COMPLETED');
  await scene.clock.until('the agent ends', () => scene.exitCode() === 0);
  assert.equal(next.state, 'PENDING');
});

test('on shutdown stops what outlasts the drain time and reports it FAILED', async () => {
  const scene = makeScene();
  const running = scene.service.add('running');
  const pulling = scene.service.add('pulling', { image: 'slow' });
  scene.runtime.onPull = (image) => (image === 'slow' ? new Promise(() => undefined) : Promise.resolve());
  await scene.start();
  const container = await scene.container();
  await scene.clock.until('pulling', () => scene.runtime.pulls.length === 2, 20);
  scene.agent.shutDown();
  await scene.clock.pass(29_000);
  assert.equal(container.stopped, false);
  await scene.clock.pass(1000);
  await scene.clock.until('the agent ends', () => scene.exitCode() !== null, 10);
  assert.equal(scene.exitCode(), 0);
  assert.ok(container.stopped && container.removed);
  for (const run of [running, pulling]) {
    assert.equal(run.state, 'FAILED');
    assert.equal(errorMessage(run), "Worker 'rack/7:a' is shutting down");
  }
  assert.deepEqual(scene.folders(), []);
});

test('gives up a shutdown that cannot be reported after the worker timeout, and ends with 1', async () => {
  const scene = makeScene();
  scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  scene.service.onCall = () => DOWN;
  container.end(0);
  scene.agent.shutDown();
  await scene.clock.pass(85_000);
  assert.equal(scene.exitCode(), null);
  await scene.clock.until('the agent ends', () => scene.exitCode() !== null, 10);
  assert.equal(scene.exitCode(), 1);
  assert.deepEqual(scene.folders(), []);
});

for (const status of [401, 403]) {
  for (const what of ['heartbeat', 'claim', 'getRun', 'postEvent'] as const) {
    test(`stops its containers and ends with 1 when ${what} is answered ${status}`, async () => {
      const scene = makeScene();
      const run = scene.service.add('run-1');
      await scene.start();
      const container = await scene.container();
      await scene.reaches(run, 'RUNNING');
      scene.service.onCall = (call) =>
        call.what === what ? { kind: 'refused', status, detail: 'Invalid API key' } : undefined;
      container.print('{"type":"NOTE","msg":1}');
      await scene.clock.until('the agent ends', () => scene.exitCode() !== null, 100);
      assert.equal(scene.exitCode(), 1);
      assert.ok(container.stopped && container.removed);
      assert.deepEqual(scene.folders(), []);
      assert.ok(
        scene.log.some((line) => line.includes('refuses this worker') && line.includes('Invalid API key')),
      );
    });
  }
}

test('ends with 0 when the last report on shutdown finds the run in other hands', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_TICK: '3600', SERVICE_WORKER_DRAIN: '1' } });
  const run = scene.service.add('run-1');
  await scene.start();
  await scene.container();
  await scene.reaches(run, 'RUNNING');
  run.workerId = 'other';
  assert.equal(await scene.end(), 0);
  assert.deepEqual(types(run), ['STARTED']);
});

test('reports FAILED for a run whose claim is answered after the drain time', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_DRAIN: '0' } });
  const run = scene.service.add('run-1');
  const claim = scene.service.claim.bind(scene.service);
  scene.service.claim = async (workerId, key) => {
    await scene.clock.sleep(5000);
    return claim(workerId, key);
  };
  await scene.start();
  await scene.clock.pass(1000);
  assert.equal(await scene.end(), 0);
  assert.equal(run.state, 'FAILED');
  assert.equal(errorMessage(run), "Worker 'rack/7:a' is shutting down");
  assert.equal(scene.runtime.containers.length, 0);
});

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

test('stops the container of a run that the service has ended FAILED, and reports nothing', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  run.state = 'FAILED';
  await scene.clock.pass(4000);
  assert.ok(container.stopped);
  await scene.end();
  assert.deepEqual(types(run), ['STARTED']);
});

test('ends an attempt before it begins the next one of the same run', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_TICK: '3600' } });
  const run = scene.service.add('run-1');
  await scene.start();
  const first = await scene.container();
  await scene.reaches(run, 'RUNNING');
  let release: (() => void) | undefined;
  first.remove = () =>
    new Promise((resolve) => {
      release = () => {
        first.removed = true;
        resolve();
      };
    });
  Object.assign(run, { attempt: 2, state: 'PENDING', workerId: null });
  scene.service.announce();
  await scene.clock.until('the first container is stopped', () => first.stopped, 20);
  await scene.clock.settle();
  assert.equal(run.state, 'ASSIGNED');
  assert.equal(scene.runtime.containers.length, 1);
  release?.();
  const second = await scene.container(1);
  assert.equal(second.spec.attempt, 2);
  second.end(0);
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(
    run.timeline.map(({ type, attempt }) => `${attempt} ${type}`),
    ['1 STARTED', '2 STARTED', '2 COMPLETED'],
  );
  await scene.end();
});

for (const late of ['STARTED', 'NOTE', 'COMPLETED', 'FAILED']) {
  test(`takes the refusal of a late ${late} for the end of its attempt, not for a failure of its own`, async () => {
    const scene = makeScene({ env: { SERVICE_WORKER_TICK: '3600' } });
    const run = scene.service.add('run-1');
    let finish: (() => void) | undefined;
    scene.runtime.onPull = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    await scene.start();
    await scene.clock.until('pulling', () => scene.runtime.pulls.length === 1, 20);
    const lose = () => Object.assign(run, { attempt: 2, state: 'RUNNING', workerId: 'other' });
    if (late === 'STARTED') lose();
    finish?.();
    if (late !== 'STARTED') {
      const container = await scene.container();
      await scene.reaches(run, 'RUNNING');
      lose();
      container.print(...(late === 'NOTE' ? ['{"type":"NOTE","msg":1}'] : []));
      if (late !== 'NOTE') container.end(late === 'FAILED' ? 1 : 0);
      await scene.clock.until('removed', () => container.removed, 20);
    }
    const started = late === 'STARTED' ? [] : ['STARTED'];
    const isSent = () => scene.service.callsOf('postEvent').at(-1)?.event?.type === late;
    await scene.clock.until('it is refused', isSent);
    await scene.clock.until('the folder is gone', () => scene.folders().length === 0, 20);
    assert.deepEqual(types(run), started);
    const sent = scene.service.callsOf('postEvent').map(({ event }) => event?.type);
    assert.deepEqual(sent, [...started, late], 'nothing more is said about a lost attempt');
    assert.equal(await scene.end(), 0);
  });
}

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
  await scene.clock.pass(2000);
  scene.worker.shutDown();
  scene.worker.shutDown();
  const next = scene.service.add('run-2');
  await scene.clock.pass(20_000);
  assert.equal(container.stopped, false);
  assert.equal(scene.exitCode(), null);
  const beats = scene.service.callsOf('heartbeat').length;
  await scene.clock.pass(5000);
  assert.ok(scene.service.callsOf('heartbeat').length > beats);
  container.end(0);
  await scene.reaches(run, 'COMPLETED');
  await scene.clock.until('the worker ends', () => scene.exitCode() === 0);
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
  scene.worker.shutDown();
  await scene.clock.pass(29_000);
  assert.equal(container.stopped, false);
  await scene.clock.pass(1000);
  await scene.clock.until('the worker ends', () => scene.exitCode() !== null, 10);
  assert.equal(scene.exitCode(), 0);
  assert.ok(container.stopped && container.removed);
  for (const run of [running, pulling]) {
    assert.equal(run.state, 'FAILED');
    assert.equal(errorMessage(run), "Worker 'rack/7:a' is shutting down");
  }
  assert.deepEqual(scene.folders(), []);
});

test('on shutdown reports FAILED for a container that works on only once it is gone', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_DRAIN: '0' } });
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  let release: (() => void) | undefined;
  container.stop = () =>
    new Promise((resolve) => {
      release = resolve;
    });
  scene.worker.shutDown();
  await scene.clock.until('the container is asked to stop', () => release !== undefined, 10);
  await scene.clock.pass(5_000);
  assert.equal(run.state, 'RUNNING');
  release?.();
  await scene.clock.until('the end is reported', () => run.state === 'FAILED', 10);
  await scene.clock.until('the worker ends', () => scene.exitCode() !== null, 10);
});

test('gives up a shutdown that cannot be reported after the worker timeout, and ends with 1', async () => {
  const scene = makeScene();
  scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  scene.service.onCall = () => DOWN;
  container.end(0);
  scene.worker.shutDown();
  await scene.clock.pass(85_000);
  assert.equal(scene.exitCode(), null);
  await scene.clock.until('the worker ends', () => scene.exitCode() !== null, 10);
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
      await scene.clock.until('the worker ends', () => scene.exitCode() !== null, 100);
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

test('reports FAILED for a run whose plain claim is answered after the drain time', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_DRAIN: '0' } });
  scene.service.knowsWait = false;
  const run = scene.service.add('run-1');
  const claim = scene.service.claim.bind(scene.service);
  scene.service.claim = async (workerId, key, call) => {
    await scene.clock.sleep(call.waitSeconds > 0 ? 0 : 5000);
    return claim(workerId, key, call);
  };
  await scene.start();
  await scene.clock.pass(1000);
  assert.equal(await scene.end(), 0);
  assert.equal(run.state, 'FAILED');
  assert.equal(errorMessage(run), "Worker 'rack/7:a' is shutting down");
  assert.equal(scene.runtime.containers.length, 0);
});

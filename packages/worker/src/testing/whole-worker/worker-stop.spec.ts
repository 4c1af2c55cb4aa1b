import assert from 'node:assert/strict';
import { test } from 'vitest';
import { DOWN, errorMessage, eventTypes, PLAIN } from '../fake-service.js';
import { makeHarness, startedRun } from '../worker-harness.js';

test('abandons a pull when its run is cancelled, even when the pull ignores its signal', async () => {
  const harness = makeHarness();
  harness.runtime.onPull = () => new Promise(() => undefined);
  const run = harness.service.add('run-1');
  await harness.start();
  await harness.clock.until('pulling', () => harness.runtime.pulls.length === 1, 20);
  run.state = 'CANCELLED';
  await harness.clock.pass(4000);
  const later = harness.service.add('run-2');
  harness.runtime.onPull = async () => undefined;
  harness.runtime.onStart = (container) => container.end(0);
  await harness.untilState(later, 'COMPLETED');
  assert.deepEqual(eventTypes(run), []);
  assert.equal(harness.runtime.containers.length, 1);
});

test('starts no container when STARTED is refused with 409', async () => {
  const harness = makeHarness();
  const run = harness.service.add('run-1');
  harness.service.onCall = ({ event }) => {
    if (event?.type === 'STARTED') run.workerId = 'other';
    return undefined;
  };
  await harness.start();
  await harness.clock.until('STARTED is sent', () => harness.service.callsOf('postEvent').length === 1, 20);
  await harness.clock.pass(4000);
  assert.equal(harness.runtime.containers.length, 0);
  assert.equal(harness.service.callsOf('postEvent').length, 1);
});

test('ends an attempt before it starts the next one of the same run', async () => {
  const {
    harness,
    clock,
    service,
    runtime,
    run,
    container: first,
  } = await startedRun({
    env: { SERVICE_WORKER_TICK: '3600' },
  });
  let release: (() => void) | undefined;
  first.remove = () =>
    new Promise((resolve) => {
      release = () => {
        first.removed = true;
        resolve();
      };
    });
  Object.assign(run, { attempt: 2, state: 'PENDING', workerId: null });
  service.wakeClaims();
  await clock.until('the first container is stopped', () => first.stopped, 20);
  await clock.settle();
  assert.equal(run.state, 'ASSIGNED');
  assert.equal(runtime.containers.length, 1);
  release?.();
  const second = await harness.container(1);
  assert.equal(second.spec.attempt, 2);
  second.end(0);
  await harness.untilState(run, 'COMPLETED');
  assert.deepEqual(
    run.timeline.map(({ type, attempt }) => `${attempt} ${type}`),
    ['1 STARTED', '2 STARTED', '2 COMPLETED'],
  );
});

for (const late of ['STARTED', 'NOTE', 'COMPLETED', 'FAILED']) {
  test(`treats a refused late ${late} as the end of its attempt, not as its own failure`, async () => {
    const harness = makeHarness({ env: { SERVICE_WORKER_TICK: '3600' } });
    const run = harness.service.add('run-1');
    let finish: (() => void) | undefined;
    harness.runtime.onPull = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    await harness.start();
    await harness.clock.until('pulling', () => harness.runtime.pulls.length === 1, 20);
    const lose = () => Object.assign(run, { attempt: 2, state: 'RUNNING', workerId: 'other' });
    if (late === 'STARTED') lose();
    finish?.();
    if (late !== 'STARTED') {
      const container = await harness.container();
      await harness.untilState(run, 'RUNNING');
      lose();
      container.print(...(late === 'NOTE' ? ['{"type":"NOTE","msg":1}'] : []));
      if (late !== 'NOTE') container.end(late === 'FAILED' ? 1 : 0);
      await harness.clock.until('removed', () => container.removed, 20);
    }
    const started = late === 'STARTED' ? [] : ['STARTED'];
    const isSent = () => harness.service.callsOf('postEvent').at(-1)?.event?.type === late;
    await harness.clock.until('it is refused', isSent);
    await harness.clock.pass(4000);
    assert.deepEqual(eventTypes(run), started);
    const sent = harness.service.callsOf('postEvent').map(({ event }) => event?.type);
    assert.deepEqual(sent, [...started, late], 'nothing more is said about a lost attempt');
    assert.equal(await harness.end(), 0);
  });
}

test('stops when a log event is refused because the run has ended', async () => {
  const { clock, run, container } = await startedRun({ env: { SERVICE_WORKER_TICK: '3600' } });
  run.state = 'CANCELLED';
  container.print('{"type":"NOTE","msg":"still there"}');
  await clock.until('stopped', () => container.stopped && container.removed);
  assert.deepEqual(eventTypes(run), ['STARTED']);
});

test('on shutdown lets its runs end within the drain time, stops claiming, and exits with 0', async () => {
  const { harness, clock, service, run, container } = await startedRun();
  await clock.pass(2000);
  harness.worker.shutDown();
  harness.worker.shutDown();
  const next = service.add('run-2');
  await clock.pass(12_000);
  assert.equal(container.stopped, false);
  assert.equal(harness.exitCode(), null);
  const beats = service.callsOf('heartbeat').length;
  await clock.pass(12_000);
  assert.ok(service.callsOf('heartbeat').length > beats);
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await clock.until('the worker ends', () => harness.exitCode() === 0);
  assert.equal(next.state, 'PENDING');
});

test('on shutdown stops runs after the drain time and reports them FAILED', async () => {
  const harness = makeHarness();
  const running = harness.service.add('running');
  const pulling = harness.service.add('pulling', { image: 'slow' });
  harness.runtime.onPull = (image) => (image === 'slow' ? new Promise(() => undefined) : Promise.resolve());
  await harness.start();
  const container = await harness.container();
  await harness.clock.until('pulling', () => harness.runtime.pulls.length === 2, 20);
  harness.worker.shutDown();
  await harness.clock.pass(29_000);
  assert.equal(container.stopped, false);
  await harness.clock.pass(1000);
  await harness.clock.until('the worker ends', () => harness.exitCode() !== null, 10);
  assert.equal(harness.exitCode(), 0);
  assert.ok(container.stopped && container.removed);
  for (const run of [running, pulling]) {
    assert.equal(run.state, 'FAILED');
    assert.equal(errorMessage(run), "Worker 'rack/7:a' is shutting down");
  }
});

test('on shutdown gives the container the time of its run, and reports FAILED only after its end', async () => {
  const { harness, clock, run, container } = await startedRun(
    { env: { SERVICE_WORKER_DRAIN: '0' } },
    { container: { ...PLAIN, stop_grace_s: 600 } },
  );
  let release: (() => void) | undefined;
  let graceSeconds: number | undefined;
  container.stop = (seconds) =>
    new Promise((resolve) => {
      graceSeconds = seconds;
      release = resolve;
    });
  harness.worker.shutDown();
  await clock.until('the container is asked to stop', () => release !== undefined, 10);
  await clock.pass(610_000);
  assert.deepEqual([run.state, graceSeconds], ['RUNNING', 600]);
  release?.();
  await clock.until('the end is reported', () => run.state === 'FAILED', 10);
  await clock.until('the worker ends', () => harness.exitCode() !== null, 10);
});

test('exits with 1 when it cannot report its runs within the worker timeout', async () => {
  const { harness, clock, service, container } = await startedRun();
  service.onCall = () => DOWN;
  container.end(0);
  harness.worker.shutDown();
  await clock.pass(85_000);
  assert.equal(harness.exitCode(), null);
  await clock.until('the worker ends', () => harness.exitCode() !== null, 10);
  assert.equal(harness.exitCode(), 1);
});

test('exits with 0 when the last event on shutdown finds the run reassigned', async () => {
  const { harness, run } = await startedRun({
    env: { SERVICE_WORKER_TICK: '3600', SERVICE_WORKER_DRAIN: '1' },
  });
  run.workerId = 'other';
  assert.equal(await harness.end(), 0);
  assert.deepEqual(eventTypes(run), ['STARTED']);
});

test('reports FAILED for a run whose claim is answered after the drain time', async () => {
  const harness = makeHarness({ env: { SERVICE_WORKER_DRAIN: '0' } });
  harness.service.supportsWait = false;
  const run = harness.service.add('run-1');
  const claim = harness.service.claim.bind(harness.service);
  harness.service.claim = async (workerId, key, call) => {
    await harness.clock.sleep(call.waitSeconds > 0 ? 0 : 5000);
    return claim(workerId, key, call);
  };
  await harness.start();
  await harness.clock.pass(1000);
  assert.equal(await harness.end(), 0);
  assert.equal(run.state, 'FAILED');
  assert.equal(errorMessage(run), "Worker 'rack/7:a' is shutting down");
  assert.equal(harness.runtime.containers.length, 0);
});

test('leaves the list of the service after a clean end, by its last request', async () => {
  for (const answer of [
    undefined,
    DOWN,
    { kind: 'refused', status: 404, detail: 'an older service' },
  ] as const) {
    const harness = makeHarness();
    harness.service.onCall = ({ what }) => (what === 'removeWorker' ? answer : undefined);
    harness.runtime.onStart = (container) => container.end(0);
    await harness.execute('COMPLETED');
    assert.equal(await harness.end(), 0);
    await harness.clock.pass(60_000);
    assert.equal(harness.service.calls.at(-1)?.what, 'removeWorker');
    assert.equal(harness.service.callsOf('removeWorker').length, 1);
  }
});

test('stays in the list of the service when the end of a run is not reported', async () => {
  const harness = makeHarness();
  harness.service.add('run-1');
  harness.service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? DOWN : undefined);
  harness.runtime.onStart = (container) => container.end(0);
  await harness.start();
  await harness.clock.pass(5_000);
  assert.equal(await harness.end(), 1);
  assert.deepEqual(harness.service.callsOf('removeWorker'), []);
});

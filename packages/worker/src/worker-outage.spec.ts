import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DOWN } from './testing/fake-service.js';
import { makeScene } from './testing/scene.js';
import { types } from './testing/timeline.js';

test('loses no run and doubles no event when every second answer is lost', async () => {
  const scene = makeScene();
  let calls = 0;
  scene.service.onCall = () => (++calls % 2 === 1 ? 'lose-answer' : undefined);
  scene.runtime.onStart = (container) => {
    container.print('{"type":"NOTE","msg":"once"}');
    container.end(0);
  };
  const runs = Array.from({ length: 10 }, (_, n) => scene.service.add(`run-${n}`));
  await scene.start();
  for (const run of runs) await scene.reaches(run, 'COMPLETED');
  for (const run of runs) assert.deepEqual(types(run), ['STARTED', 'NOTE', 'COMPLETED']);
  assert.equal(scene.runtime.containers.length, 10);
  await scene.end();
});

test('repeats an unanswered claim under the same key and takes a new one after an answer', async () => {
  const scene = makeScene();
  let lost = 3;
  scene.service.onCall = ({ what }) => (what === 'claim' && lost-- > 0 ? 'lose-answer' : undefined);
  scene.service.add('run-1');
  await scene.start();
  await scene.container();
  const keys = scene.service.callsOf('claim').map(({ key }) => key);
  assert.equal(new Set(keys.slice(0, 4)).size, 1);
  await scene.clock.until(
    'a claim with another key',
    () => {
      return scene.service.callsOf('claim').at(-1)?.key !== keys[0];
    },
    100,
  );
  scene.runtime.containers[0]?.end(0);
  await scene.end();
});

test('keeps the container running through an outage and reports its end afterwards', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  scene.service.onCall = () => DOWN;
  await scene.clock.pass(600_000);
  assert.equal(container.stopped, false);
  await container.writeOutputs('{"ok":true}');
  container.end(0);
  const isTried = () => scene.service.calls.some(({ event }) => event?.type === 'COMPLETED');
  await scene.clock.until('a final event is tried', isTried, 100);
  await scene.clock.pass(600_000);
  const tries = scene.service.calls.filter(({ event }) => event?.type === 'COMPLETED');
  assert.ok(tries.length > 30 && tries.length < 90, `${tries.length} tries in 10 minutes`);
  assert.equal(new Set(tries.map(({ key }) => key)).size, 1);
  scene.service.onCall = () => undefined;
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(run.timeline.at(-1)?.payload, { outputs: { ok: true } });
  await scene.end();
});

test('backs off while the service answers 5xx: no storm of any request', async () => {
  const scene = makeScene();
  scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  scene.service.calls.length = 0;
  scene.service.onCall = () => DOWN;
  await scene.clock.pass(600_000);
  for (const what of ['heartbeat', 'getRun'] as const) {
    const count = scene.service.callsOf(what).length;
    assert.ok(count >= 15 && count <= 150, `${count} times ${what} in 10 minutes`);
  }
  assert.equal(scene.service.callsOf('claim').length, 1, 'no claim before a heartbeat is taken again');
  scene.service.onCall = () => undefined;
  container.end(0);
  await scene.end();
});

test('never stops a container because of 404, 5xx or no answer about its run', async () => {
  const scene = makeScene();
  scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  let turn = 0;
  scene.service.onCall = ({ what }) => {
    if (what !== 'getRun') return undefined;
    const faults = [
      { kind: 'refused', status: 404, detail: "OpRun 'run-1' not found" },
      DOWN,
      'hang',
    ] as const;
    return faults[turn++ % 3];
  };
  await scene.clock.pass(300_000);
  assert.ok(turn > 10);
  assert.equal(container.stopped, false);
  scene.service.onCall = () => undefined;
  container.end(0);
  await scene.end();
});

test('heartbeats on time, naming its runs, while a pull hangs', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_TIMEOUT: '6', SERVICE_WORKER_TICK: '10' } });
  scene.runtime.onPull = () => new Promise(() => undefined);
  scene.service.add('run-1');
  await scene.start();
  await scene.clock.until('pulling', () => scene.runtime.pulls.length === 1, 20);
  scene.service.calls.length = 0;
  await scene.clock.pass(60_000);
  const beats = scene.service.callsOf('heartbeat');
  assert.ok(beats.length >= 59, `${beats.length} heartbeats in 60 s`);
  assert.deepEqual(
    beats.at(-1)?.report?.runningOps.map(({ id }) => id),
    ['run-1'],
  );
  assert.equal(await scene.end(), 0);
});

test('paces its heartbeats by the timeout that the service names', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_TICK: '10' } });
  scene.service.workerTimeoutSeconds = 3;
  await scene.start();
  await scene.clock.pass(30_000);
  const count = scene.service.callsOf('heartbeat').length;
  assert.ok(count >= 58 && count <= 62, `${count} heartbeats in 30 s`);
  await scene.end();
});

test('ends with 1 when the service refuses the very first heartbeat, but not later ones', async () => {
  const misfit = { kind: 'refused', status: 400, detail: 'Request validation failed' } as const;
  const first = makeScene();
  first.service.onCall = () => misfit;
  await first.start();
  await first.clock.until('the worker ends', () => first.exitCode() !== null, 100);
  assert.equal(first.exitCode(), 1);

  const later = makeScene();
  await later.start();
  await later.clock.pass(10_000);
  later.service.onCall = () => misfit;
  await later.clock.pass(120_000);
  assert.equal(later.exitCode(), null);
  await later.end();
});

test('heartbeats without inputs once the service finds a heartbeat too large', async () => {
  const scene = makeScene();
  scene.service.add('run-1', { inputs: { text: 'x'.repeat(1000) } });
  scene.service.onCall = ({ report }) =>
    JSON.stringify(report ?? {}).length > 1000
      ? { kind: 'refused', status: 413, detail: 'Request body too large' }
      : undefined;
  await scene.start();
  const container = await scene.container();
  await scene.clock.pass(30_000);
  const last = scene.service.callsOf('heartbeat').at(-1)?.report;
  assert.deepEqual(
    last?.runningOps.map(({ id, inputs }) => [id, inputs]),
    [['run-1', {}]],
  );
  container.end(0);
  await scene.end();
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DOWN } from './testing/fake-service.js';
import { makeScene } from './testing/scene.js';
import { types } from './testing/timeline.js';

test('ships what the container prints while it runs, and the rest before the end is reported', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  container.print('first', '{"type":"NOTE","msg":"an event is a line too"}');
  await scene.clock.pass(1_000);
  const early = ['first', '{"type":"NOTE","msg":"an event is a line too"}'];
  assert.deepEqual(scene.service.logs.texts('run-1'), early);
  container.print('last');
  container.end(0);
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(scene.service.logs.texts('run-1'), [...early, 'last', '<end>']);
  const calls = scene.service.calls.map(({ what, event }) => event?.type ?? what);
  assert.ok(calls.lastIndexOf('putLogChunk') < calls.lastIndexOf('COMPLETED'));
  assert.equal(await scene.end(), 0);
});

test('tells of the end of a log that is empty', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  scene.runtime.onStart = (container) => container.end(0);
  await scene.start();
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(scene.service.logs.texts('run-1'), ['<end>']);
  await scene.end();
});

test('ships the log of a cancelled run, with what its container printed while it was stopped', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  container.print('working');
  const stop = container.stop.bind(container);
  container.stop = async () => {
    container.print('cleaning up', '{"type":"NOTE","msg":"too late for an event"}');
    await stop();
  };
  run.state = 'CANCELLED';
  const isThere = () => scene.service.logs.texts('run-1').at(-1) === '<end>';
  await scene.clock.until('the log has ended', isThere, 100);
  assert.deepEqual(scene.service.logs.texts('run-1'), [
    'working',
    'cleaning up',
    '{"type":"NOTE","msg":"too late for an event"}',
    '[worker] stopped: the run is CANCELLED',
    '<end>',
  ]);
  assert.deepEqual(types(run), ['STARTED']);
  await scene.end();
});

test('ships the log of each attempt of a run under its number', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1', { maxAttempts: 2 });
  scene.runtime.onStart = (container) => {
    container.print(`attempt ${container.spec.attempt}`);
    container.end(container.spec.attempt === 1 ? 1 : 0);
  };
  await scene.start();
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(scene.service.logs.texts('run-1', 1), ['attempt 1', '<end>']);
  assert.deepEqual(scene.service.logs.texts('run-1', 2), ['attempt 2', '<end>']);
  await scene.end();
});

test('says in the log why no container ran', async () => {
  const scene = makeScene();
  scene.runtime.onPull = async () => {
    throw new Error('image not found:\nask the registry');
  };
  const run = scene.service.add('run-1');
  await scene.start();
  await scene.reaches(run, 'FAILED');
  assert.deepEqual(scene.service.logs.texts('run-1'), [
    '[worker] image not found:',
    '[worker] ask the registry',
    '<end>',
  ]);
  await scene.end();
});

for (const [what, fault] of [
  [
    'is an older one that knows no logs',
    { kind: 'refused', status: 404, detail: 'Cannot PUT /runs/r/logs/0' },
  ],
  ['cannot take logs', DOWN],
  ['never answers to logs', 'hang'],
] as const) {
  test(`reports the end within two seconds when the service ${what}`, async () => {
    const scene = makeScene();
    const run = scene.service.add('run-1');
    scene.service.onCall = (call) => (call.what === 'putLogChunk' ? fault : undefined);
    await scene.start();
    const container = await scene.container();
    container.print('line');
    container.end(0);
    const began = scene.clock.nowMs();
    await scene.reaches(run, 'COMPLETED');
    assert.ok(scene.clock.nowMs() - began < 2_000, `${scene.clock.nowMs() - began} ms`);
    await scene.clock.pass(60_000);
    const sent = scene.service.callsOf('putLogChunk').length;
    await scene.clock.pass(60_000);
    assert.equal(scene.service.callsOf('putLogChunk').length, sent, 'it is given up in the end');
    assert.equal(await scene.end(), 0);
  });
}

test('goes on shipping after the end was reported, and the run is not held meanwhile', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  scene.service.onCall = (call) => (call.what === 'putLogChunk' ? DOWN : undefined);
  await scene.start();
  const container = await scene.container();
  container.print('line');
  container.end(0);
  await scene.reaches(run, 'COMPLETED');
  await scene.clock.until(
    'a heartbeat without the run',
    () => scene.service.callsOf('heartbeat').at(-1)?.report?.runningOps.length === 0,
    100,
  );
  assert.deepEqual(scene.service.logs.texts('run-1'), []);
  scene.service.onCall = () => undefined;
  await scene.clock.pass(10_000);
  assert.deepEqual(scene.service.logs.texts('run-1'), ['line', '<end>']);
  await scene.end();
});

test('waits on shutdown for the rest of a log, but not longer than the drain time and a bit', async () => {
  for (const [drain, comesBack] of [
    ['30', true],
    ['0', false],
  ] as const) {
    const scene = makeScene({ env: { SERVICE_WORKER_DRAIN: drain } });
    const run = scene.service.add('run-1');
    scene.service.onCall = (call) => (call.what === 'putLogChunk' ? DOWN : undefined);
    await scene.start();
    const container = await scene.container();
    container.print('line');
    container.end(0);
    await scene.reaches(run, 'COMPLETED');
    scene.worker.shutDown();
    const began = scene.clock.nowMs();
    await scene.clock.pass(2_000);
    assert.equal(scene.exitCode(), null);
    if (comesBack) scene.service.onCall = () => undefined;
    await scene.clock.until('the worker ends', () => scene.exitCode() !== null, 50);
    assert.equal(scene.exitCode(), 0);
    assert.ok(scene.clock.nowMs() - began < 8_000, `${scene.clock.nowMs() - began} ms`);
    assert.deepEqual(scene.service.logs.texts('run-1'), comesBack ? ['line', '<end>'] : []);
  }
});

test('heartbeats and forwards events on time while the service does not answer to logs', async () => {
  const scene = makeScene({ env: { SERVICE_WORKER_TIMEOUT: '6' } });
  const run = scene.service.add('run-1');
  scene.service.onCall = (call) => (call.what === 'putLogChunk' ? 'hang' : undefined);
  await scene.start();
  const container = await scene.container();
  await scene.reaches(run, 'RUNNING');
  scene.service.calls.length = 0;
  for (let n = 0; n < 30; n++) {
    container.print(
      ...Array.from({ length: 2_000 }, () => 'x'.repeat(100)),
      `{"type":"PROGRESS","msg":${n}}`,
    );
    await scene.clock.pass(1_000);
    assert.equal(run.timeline.at(-1)?.msg, n);
  }
  const beats = scene.service.callsOf('heartbeat').length;
  assert.ok(beats >= 14, `${beats} heartbeats in 30 s`);
  container.end(0);
  await scene.reaches(run, 'COMPLETED');
  await scene.end();
});

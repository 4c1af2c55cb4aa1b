import assert from 'node:assert/strict';
import { test } from 'vitest';
import { MAX_EVENT_LINE } from '../../logs/log-events.js';
import { DOWN, eventTypes } from '../fake-service.js';
import { makeHarness, startedRun } from '../worker-harness.js';

test('ships the log while the container runs, and the rest before the final event', async () => {
  const { harness, clock, service, run, container } = await startedRun();
  container.print('first', '{"type":"NOTE","msg":"an event is a line too"}');
  await clock.pass(1_000);
  const early = ['first', '{"type":"NOTE","msg":"an event is a line too"}'];
  assert.deepEqual(service.logs.texts('run-1'), early);
  container.print('last');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  assert.deepEqual(service.logs.texts('run-1'), [...early, 'last', '<end>']);
  const calls = service.calls.map(({ what, event }) => event?.type ?? what);
  assert.ok(calls.lastIndexOf('putLogChunk') < calls.lastIndexOf('COMPLETED'));
  assert.equal(await harness.end(), 0);
});

test('forwards the events of a log up to the limit, says once that more were dropped, and ships every line', async () => {
  const { harness, service, run, container } = await startedRun({ env: { SERVICE_WORKER_MAX_EVENTS: '3' } });
  const lines = Array.from({ length: 20 }, (_, n) => `{"type":"NOTE","msg":${n}}`);
  container.print(...lines);
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  assert.deepEqual(eventTypes(run), ['STARTED', 'NOTE', 'NOTE', 'NOTE', 'EVENTS_DROPPED', 'COMPLETED']);
  assert.match(String(run.timeline[4]?.msg), /SERVICE_WORKER_MAX_EVENTS is 3/);
  assert.deepEqual(service.logs.texts('run-1'), [...lines, '<end>']);
});

test('reads an event from a line in parts, and tells of one whose line or number is too long or that the service refuses', async () => {
  const harness = makeHarness();
  const run = harness.service.add('run-1');
  harness.service.onCall = ({ event }) =>
    event?.type === 'LARGE' ? { kind: 'refused', status: 413, detail: 'too large' } : undefined;
  await harness.start();
  const container = await harness.container();
  const padding = 'x'.repeat(MAX_EVENT_LINE);
  container.printParts('{"type":"NOTE",', '"msg":1}');
  container.printParts('{"type":"NOTE","msg":"', padding, '"}');
  container.printParts('{"payload":{"a":"', padding, '"},"type":"LATE","msg":2}');
  container.printParts('{"result":"', padding, '"}');
  // Other JSON that has types.
  container.printParts('{"fields":[{"type":"INT64","msg":1}],"msg":"', padding, '"}');
  container.printParts('{"msg":"', padding, '","fields":[{"type":"INT64","msg":1}]}');
  container.printParts('{"type":"TABLE","rows":"', padding, '"}');
  container.printParts('{"rows":"', padding, '","type":"TABLE"}');
  container.printParts('{"payload":{"type":"INT64"},"type":"AFTER","msg":"', padding, '"}');
  container.print(`{"type":"HUGE","msg":"","payload":{"a":[${'9'.repeat(1001)}]}}`);
  container.print(`{"table":{"type":"INT64","msg":[${'9'.repeat(1001)}]}}`);
  container.print('{"type":"LARGE","msg":3}', '{"type":"LAST","msg":4}');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  const shown = run.timeline.map(({ type, msg }) => `${type} ${type === 'EVENTS_DROPPED' ? msg : ''}`.trim());
  const tooLong = 'its line is longer than 65536 characters';
  assert.deepEqual(shown, [
    'STARTED',
    'NOTE',
    `EVENTS_DROPPED An event of the type NOTE is dropped: ${tooLong}`,
    `EVENTS_DROPPED An event of the type LATE is dropped: ${tooLong}`,
    `EVENTS_DROPPED An event of the type AFTER is dropped: ${tooLong}`,
    'EVENTS_DROPPED An event of the type HUGE is dropped: it has a number of more than 1,000 characters in /payload/a/0 at character 41',
    'EVENTS_DROPPED An event of the type LARGE is dropped: it is larger than the service takes',
    'LAST',
    'COMPLETED',
  ]);
});

test('leaves events out of the error message', async () => {
  const harness = makeHarness();
  const progress = Array.from({ length: 30 }, (_, n) => `{"type":"PROGRESS","msg":${n}}`);
  harness.runtime.onStart = (container) => {
    container.print('no such file: data.csv', ...progress, '{"not": "an event"}');
    container.end(3);
  };
  const run = await harness.execute('FAILED');
  assert.equal(
    run.timeline.at(-1)?.payload?.['error_message'],
    'The container ended with exit code 3. Its last log lines:\nno such file: data.csv\n{"not": "an event"}',
  );
});

test('marks the end of an empty log', async () => {
  const harness = makeHarness();
  harness.runtime.onStart = (container) => container.end(0);
  await harness.execute('COMPLETED');
  assert.deepEqual(harness.service.logs.texts('run-1'), ['<end>']);
});

test('ships the log of a cancelled run, with the output during its stop', async () => {
  const { clock, service, run, container } = await startedRun();
  container.print('working');
  const stop = container.stop.bind(container);
  container.stop = async (seconds) => {
    container.print('cleaning up', '{"type":"NOTE","msg":"too late for an event"}');
    await stop(seconds);
  };
  run.state = 'CANCELLED';
  const isThere = () => service.logs.texts('run-1').at(-1) === '<end>';
  await clock.until('the log has ended', isThere, 100);
  assert.deepEqual(service.logs.texts('run-1'), [
    'working',
    'cleaning up',
    '{"type":"NOTE","msg":"too late for an event"}',
    '[worker] stopped: the run is CANCELLED',
    '<end>',
  ]);
  assert.deepEqual(eventTypes(run), ['STARTED']);
});

test("ships the log of each attempt under the attempt's number", async () => {
  const harness = makeHarness();
  harness.runtime.onStart = (container) => {
    container.print(`attempt ${container.spec.attempt}`);
    container.end(container.spec.attempt === 1 ? 1 : 0);
  };
  await harness.execute('COMPLETED', { maxAttempts: 2 });
  assert.deepEqual(harness.service.logs.texts('run-1', 1), ['attempt 1', '<end>']);
  assert.deepEqual(harness.service.logs.texts('run-1', 2), ['attempt 2', '<end>']);
});

test('writes the reason to the log when no container ran', async () => {
  const harness = makeHarness();
  harness.runtime.onPull = async () => {
    throw new Error('image not found:\nask the registry');
  };
  await harness.execute('FAILED');
  assert.deepEqual(harness.service.logs.texts('run-1'), [
    '[worker] image not found:',
    '[worker] ask the registry',
    '<end>',
  ]);
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
    const harness = makeHarness();
    const run = harness.service.add('run-1');
    harness.service.onCall = (call) => (call.what === 'putLogChunk' ? fault : undefined);
    await harness.start();
    const container = await harness.container();
    container.print('line');
    container.end(0);
    const began = harness.clock.nowMs();
    await harness.untilState(run, 'COMPLETED');
    assert.ok(harness.clock.nowMs() - began < 2_000, `${harness.clock.nowMs() - began} ms`);
    await harness.clock.pass(700_000);
    const sent = harness.service.callsOf('putLogChunk').length;
    await harness.clock.pass(60_000);
    assert.equal(harness.service.callsOf('putLogChunk').length, sent, 'it is given up in the end');
    assert.equal(await harness.end(), 0);
  });
}

test('continues to ship after the final event, and releases the run', async () => {
  const harness = makeHarness();
  const run = harness.service.add('run-1');
  harness.service.onCall = (call) => (call.what === 'putLogChunk' ? DOWN : undefined);
  await harness.start();
  const container = await harness.container();
  container.print('line');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await harness.clock.until(
    'a heartbeat without the run',
    () => harness.service.callsOf('heartbeat').at(-1)?.report?.runningOps.length === 0,
    100,
  );
  assert.deepEqual(harness.service.logs.texts('run-1'), []);
  harness.service.onCall = () => undefined;
  await harness.clock.pass(20_000);
  assert.deepEqual(harness.service.logs.texts('run-1'), ['line', '<end>']);
});

test('marks the end of a log whose rest it could not ship in time', async () => {
  const { harness, clock, service, run, container } = await startedRun();
  container.print('first');
  await clock.pass(5_000);
  service.onCall = ({ what }) => (what === 'putLogChunk' ? DOWN : undefined);
  container.print('second');
  await clock.pass(5_000);
  // Waits behind the chunk with `second`, which is repeated.
  container.print('third');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await clock.pass(120_000);
  service.onCall = () => undefined;
  await clock.until('the log has ended', () => service.logs.texts('run-1').includes('<end>'), 1_000);
  assert.deepEqual(service.logs.texts('run-1'), ['first', 'second', '[1]', '<end>']);
});

test('on shutdown ships the rest of a log for little more than the drain time', async () => {
  for (const [drain, comesBack] of [
    ['30', true],
    ['0', false],
  ] as const) {
    const harness = makeHarness({ env: { SERVICE_WORKER_DRAIN: drain } });
    const run = harness.service.add('run-1');
    harness.service.onCall = (call) => (call.what === 'putLogChunk' ? DOWN : undefined);
    await harness.start();
    const container = await harness.container();
    container.print('line');
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    harness.worker.shutDown();
    const began = harness.clock.nowMs();
    await harness.clock.pass(2_000);
    assert.equal(harness.exitCode(), null);
    if (comesBack) harness.service.onCall = () => undefined;
    await harness.clock.until('the worker ends', () => harness.exitCode() !== null, 50);
    assert.equal(harness.exitCode(), 0);
    assert.ok(harness.clock.nowMs() - began < 8_000, `${harness.clock.nowMs() - began} ms`);
    assert.deepEqual(harness.service.logs.texts('run-1'), comesBack ? ['line', '<end>'] : []);
  }
});

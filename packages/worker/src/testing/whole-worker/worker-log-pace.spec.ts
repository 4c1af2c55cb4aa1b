import assert from 'node:assert/strict';
import { test } from 'vitest';
import { DOWN } from '../fake-service.js';
import { makeHarness } from '../worker-harness.js';

test('sends heartbeats on time while the service does not answer log chunks, and events once a chunk got no answer', async () => {
  const harness = makeHarness({ env: { SERVICE_WORKER_TIMEOUT: '6' } });
  const run = harness.service.add('run-1');
  harness.service.onCall = (call) => (call.what === 'putLogChunk' ? 'hang' : undefined);
  await harness.start();
  const container = await harness.container();
  await harness.untilState(run, 'RUNNING');
  harness.service.calls.length = 0;
  for (let n = 0; n < 30; n++) {
    container.print(
      ...Array.from({ length: 2_000 }, () => 'x'.repeat(100)),
      `{"type":"PROGRESS","msg":${n}}`,
    );
    await harness.clock.pass(1_000);
    if (n === 10) assert.notEqual(run.timeline.at(-1)?.msg, n, 'the container waits for the first request');
    // After 10 s, the timeout of the fake service, and 3 s. The clock stands still meanwhile.
    if (n >= 15) await harness.clock.until(`event ${n}`, () => run.timeline.at(-1)?.msg === n);
  }
  const beats = harness.service.callsOf('heartbeat').length;
  assert.ok(beats >= 14, `${beats} heartbeats in 30 s`);
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
});

for (const [what, chunkMs, count, words] of [
  ['needs its time for each chunk', 20, 60_000, 'a line of an example'],
  // 256 KiB at 80 KB/s: longer than the patience with a service that is away.
  ['is behind a slow line', 3_200, 30_000, 'x'.repeat(100)],
] as const) {
  test(`ships ${count} quick lines whole: the container waits for a service that ${what}`, async () => {
    const harness = makeHarness();
    const { clock, runtime, service } = harness;
    service.chunkMs = chunkMs;
    const lines = Array.from({ length: count }, (_, n) => `${words} ${n}`);
    runtime.onStart = (container) => {
      for (const line of lines) container.print(line);
      container.end(0);
    };
    await harness.execute('COMPLETED');
    await clock.until('the log ends', () => service.logs.texts('run-1').at(-1) === '<end>', 1_000);
    assert.deepEqual(service.logs.texts('run-1'), [...lines, '<end>']);
  });
}

test('lets the container go on, and names the gap, while the service accepts nothing', async () => {
  const LINES = 20_000;
  const harness = makeHarness();
  const { clock, service } = harness;
  const run = service.add('run-1');
  service.onCall = ({ what }) => (what === 'putLogChunk' ? DOWN : undefined);
  await harness.start();
  const container = await harness.container();
  for (let n = 0; n < LINES; n++) container.print(`${'x'.repeat(500)} ${n}`);
  await clock.pass(2_000);
  assert.ok(container.linesRead < LINES / 2, `${container.linesRead} lines read`);
  await clock.until('all lines are read', () => container.linesRead === LINES, 1_000);
  service.onCall = () => undefined;
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await clock.until('the log ends', () => service.logs.texts('run-1').at(-1) === '<end>', 1_000);
  const texts = service.logs.texts('run-1');
  const gaps = texts.flatMap((text) => /^\[(\d+)\]$/.exec(text)?.[1] ?? []);
  assert.equal(gaps.length, 1);
  assert.equal(texts.length - 2 + Number(gaps[0]), LINES);
});

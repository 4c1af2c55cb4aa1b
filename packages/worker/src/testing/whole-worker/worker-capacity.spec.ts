import assert from 'node:assert/strict';
import { test } from 'vitest';
import { RunFault } from '../../runtime/runtime.js';
import { DOWN, errorMessage } from '../fake-service.js';
import { makeHarness } from '../worker-harness.js';

const want = (cpu: number) => ({ constraints: { ramMb: 0, vramMb: 0, cpu, gpuId: null } });

test('executes as many runs at once as there are cores, and claims no more', async () => {
  const harness = makeHarness();
  for (let n = 0; n < 6; n++) harness.service.add(`run-${n}`);
  await harness.start();
  await harness.container(3);
  await harness.clock.pass(20_000);
  assert.equal(harness.runtime.containers.length, 4);
  assert.equal([...harness.service.runs.values()].filter(({ state }) => state === 'PENDING').length, 2);
  harness.runtime.containers[0]?.end(0);
  await harness.container(4);
  harness.runtime.onStart = (container) => container.end(0);
  for (const container of harness.runtime.containers) container.end(0);
  for (const run of harness.service.runs.values()) await harness.untilState(run, 'COMPLETED');
  await harness.end();
});

test('keeps a claimed run that does not fit yet, claims nothing, and starts it when there is room', async () => {
  const harness = makeHarness();
  harness.service.add('small', want(2));
  const large = harness.service.add('large', want(3));
  const third = harness.service.add('third', want(1));
  await harness.start();
  const first = await harness.container();
  await harness.clock.pass(60_000);
  assert.equal(large.state, 'ASSIGNED');
  assert.equal(third.state, 'PENDING');
  const listed = harness.service
    .callsOf('heartbeat')
    .at(-1)
    ?.report?.runningOps.map(({ id }) => id);
  assert.deepEqual(listed, ['small', 'large']);
  harness.runtime.onStart = (container) => container.end(0);
  first.end(0);
  await harness.untilState(large, 'COMPLETED');
  await harness.untilState(third, 'COMPLETED');
  await harness.end();
});

test('fails a run whose requirements it cannot meet, with the missing resource', async () => {
  const harness = makeHarness();
  const run = harness.service.add('run-1', { constraints: { ramMb: 9000, vramMb: 0, cpu: 0, gpuId: null } });
  await harness.start();
  await harness.untilState(run, 'FAILED');
  assert.match(errorMessage(run), /9000 MB of RAM.*8000 MB.*1000 MB.*SERVICE_SCHEDULER=fit/);
  assert.equal(run.timeline.at(-1)?.payload?.['cause'], 'infrastructure');
  assert.equal(harness.runtime.pulls.length, 0);
  // Nothing is wrong with this machine.
  const next = harness.service.add('run-2');
  const before = harness.clock.nowMs();
  await harness.container();
  assert.ok(harness.clock.nowMs() - before < 1000);
  assert.deepEqual([next.state, harness.runtime.probes], ['RUNNING', 0]);
  harness.runtime.containers[0]?.end(0);
  await harness.end();
});

test('limits the rate of failures when it cannot start containers', async () => {
  const harness = makeHarness();
  harness.runtime.onPull = async () => {
    throw new Error('engine unavailable');
  };
  const run = harness.service.add('run-1', { maxAttempts: 1000 });
  await harness.start();
  await harness.clock.pass(600_000);
  assert.ok(run.failures > 30 && run.failures < 120, `${run.failures} failures in 10 minutes`);
  await harness.end();
});

test('keeps claiming after runs that fail through their own fault', async () => {
  const harness = makeHarness();
  harness.runtime.onPull = async (image) => {
    if (image === 'missing') throw new RunFault("Image 'missing' was not found");
  };
  harness.runtime.onStart = async (container) => {
    if (container.spec.image === 'bad-outputs') container.writeOutputs('[]');
    container.end(0);
  };
  const faulty = Array.from({ length: 40 }, (_, n) =>
    harness.service.add(`faulty-${n}`, { image: n % 2 === 0 ? 'missing' : 'bad-outputs' }),
  );
  const good = harness.service.add('good');
  await harness.start();
  const before = harness.clock.nowMs();
  await harness.untilState(good, 'COMPLETED');
  assert.ok(harness.clock.nowMs() - before < 3000, `${harness.clock.nowMs() - before} ms`);
  for (const run of faulty) await harness.untilState(run, 'FAILED');
  await harness.end();
});

test('reports the chosen GPU and passes it to the container', async () => {
  const gpus = [
    { id: 0, vramMb: 24_000, tags: [] },
    { id: 1, vramMb: 8000, tags: [] },
  ];
  const harness = makeHarness({ resources: { gpus } });
  const run = harness.service.add('run-1', { constraints: { ramMb: 0, vramMb: 6000, cpu: 0, gpuId: null } });
  await harness.start();
  const container = await harness.container();
  assert.equal(container.spec.limits.gpuId, 1);
  assert.deepEqual(run.timeline[0]?.payload, { worker_id: 'rack/7:a', gpu_id: 1 });
  container.end(0);
  await harness.end();
});

test('stops claiming while too many ends of runs are not reported', async () => {
  const harness = makeHarness();
  for (let n = 0; n < 30; n++) harness.service.add(`run-${n}`);
  harness.service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? DOWN : undefined);
  harness.runtime.onStart = (container) => container.end(0);
  await harness.start();
  await harness.clock.pass(120_000);
  assert.equal(harness.runtime.containers.length, 8);
  harness.service.onCall = () => undefined;
  for (const run of harness.service.runs.values()) await harness.untilState(run, 'COMPLETED');
  await harness.end();
});

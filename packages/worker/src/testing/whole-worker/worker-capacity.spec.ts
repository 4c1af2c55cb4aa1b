import assert from 'node:assert/strict';
import { test } from 'vitest';
import { RunFault } from '../../runtime/runtime.js';
import { NO_CONSTRAINTS, type Constraints } from '../../service-api/constraints.js';
import { DOWN, errorMessage } from '../fake-service.js';
import { makeHarness, startedRun } from '../worker-harness.js';

const want = (constraints: Partial<Constraints>) => ({ constraints: { ...NO_CONSTRAINTS, ...constraints } });

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
});

test('keeps a claimed run that does not fit yet, claims nothing, and starts it when there is room', async () => {
  const harness = makeHarness();
  harness.service.add('small', want({ cpuMillis: 2000 }));
  const large = harness.service.add('large', want({ cpuMillis: 3000 }));
  const third = harness.service.add('third', want({ cpuMillis: 1000 }));
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
});

test('fails a run whose requirements it cannot meet, with the missing resource', async () => {
  const harness = makeHarness();
  const run = await harness.execute('FAILED', want({ ramMb: 9000 }));
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
});

test('reports the chosen GPU and passes it to the container', async () => {
  const gpus = [
    { id: 0, vramMb: 24_000, tags: [] },
    { id: 1, vramMb: 8000, tags: [] },
  ];
  const { run, container } = await startedRun({ resources: { gpus } }, want({ vramMb: 6000 }));
  assert.deepEqual(container.spec.limits.gpuIds, [1]);
  assert.deepEqual(run.timeline[0]?.payload, { worker_id: 'rack/7:a', gpu_id: 1 });
  container.end(0);
});

test('reports all GPUs that a run has alone, and keeps them from other runs until its end', async () => {
  const gpus = [0, 1, 2].map((id) => ({ id, vramMb: 8000, tags: [] }));
  const harness = makeHarness({ resources: { gpus } });
  const alone = harness.service.add('alone', want({ gpus: 2, gpuIds: [0, 2] }));
  const others = [1, 2].map((n) => harness.service.add(`share-${n}`, want({ vramMb: 5000 })));
  await harness.start();
  const first = await harness.container();
  assert.deepEqual(first.spec.limits.gpuIds, [0, 2]);
  assert.deepEqual(alone.timeline[0]?.payload, { worker_id: 'rack/7:a', gpu_id: 0, gpu_ids: [0, 2] });
  const second = await harness.container(1);
  assert.deepEqual(others[0]?.timeline[0]?.payload, { worker_id: 'rack/7:a', gpu_id: 1 });
  await harness.clock.pass(20_000);
  assert.equal(harness.runtime.containers.length, 2, 'no share of a GPU that a run has alone');
  first.end(0);
  const third = await harness.container(2);
  assert.deepEqual(third.spec.limits.gpuIds, [0]);
  for (const container of [second, third]) container.end(0);
  for (const run of others) await harness.untilState(run, 'COMPLETED');
});

test('does not start a run that needs what its runtime does not announce', async () => {
  for (const [capability, constraints] of [
    ['cpu_millis', { cpuMillis: 1500, cpuLimitMillis: 1500 }],
    ['cpu_millis', { cpuMillis: 1000, cpuLimitMillis: 2000 }],
    ['gpus', { gpus: 1 }],
    ['shm', { shmMb: 64 }],
  ] as const) {
    const harness = makeHarness({ capabilities: ['env'] });
    const run = await harness.execute('FAILED', want(constraints));
    assert.match(errorMessage(run), new RegExp(`needs ${capability}, which the runtime`));
    assert.equal(harness.runtime.containers.length, 0);
  }
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
});

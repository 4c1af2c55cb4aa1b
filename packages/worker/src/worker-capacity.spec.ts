import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunFault } from './runtime/run-fault.js';
import { DOWN } from './testing/fake-service.js';
import { makeScene } from './testing/scene.js';
import { errorMessage } from './testing/timeline.js';

const want = (cpu: number) => ({ constraints: { ramMb: 0, vramMb: 0, cpu, gpuId: null } });

test('executes runs side by side as far as the cores go and lets the others wait at the service', async () => {
  const scene = makeScene();
  for (let n = 0; n < 6; n++) scene.service.add(`run-${n}`);
  await scene.start();
  await scene.container(3);
  await scene.clock.pass(20_000);
  assert.equal(scene.runtime.containers.length, 4);
  assert.equal([...scene.service.runs.values()].filter(({ state }) => state === 'PENDING').length, 2);
  scene.runtime.containers[0]?.end(0);
  await scene.container(4);
  scene.runtime.onStart = (container) => container.end(0);
  for (const container of scene.runtime.containers) container.end(0);
  for (const run of scene.service.runs.values()) await scene.reaches(run, 'COMPLETED');
  await scene.end();
});

test('keeps a claimed run that does not fit now, claims nothing meanwhile, and starts it when there is room', async () => {
  const scene = makeScene();
  scene.service.add('small', want(2));
  const large = scene.service.add('large', want(3));
  const third = scene.service.add('third', want(1));
  await scene.start();
  const first = await scene.container();
  await scene.clock.pass(60_000);
  assert.equal(large.state, 'ASSIGNED');
  assert.equal(third.state, 'PENDING');
  const listed = scene.service
    .callsOf('heartbeat')
    .at(-1)
    ?.report?.runningOps.map(({ id }) => id);
  assert.deepEqual(listed, ['small', 'large']);
  scene.runtime.onStart = (container) => container.end(0);
  first.end(0);
  await scene.reaches(large, 'COMPLETED');
  await scene.reaches(third, 'COMPLETED');
  await scene.end();
});

test('fails a run that it can never execute, naming what is missing and how much', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1', { constraints: { ramMb: 9000, vramMb: 0, cpu: 0, gpuId: null } });
  await scene.start();
  await scene.reaches(run, 'FAILED');
  assert.match(errorMessage(run), /9000 MB of RAM.*8000 MB.*1000 MB/);
  assert.equal(scene.runtime.pulls.length, 0);
  await scene.end();
});

test('does not fail a whole queue in a moment when nothing can be started', async () => {
  const scene = makeScene();
  scene.runtime.onPull = async () => {
    throw new Error('engine away');
  };
  const run = scene.service.add('run-1', { maxAttempts: 1000 });
  await scene.start();
  await scene.clock.pass(600_000);
  assert.ok(run.failures > 30 && run.failures < 120, `${run.failures} failures in 10 minutes`);
  await scene.end();
});

test('does not let runs that are at fault themselves keep it from the others', async () => {
  const scene = makeScene();
  scene.runtime.onPull = async (image) => {
    if (image === 'missing') throw new RunFault("Image 'missing' was not found");
  };
  scene.runtime.onStart = async (container) => {
    if (container.spec.image === 'bad-outputs') await container.writeOutputs('[]');
    container.end(0);
  };
  const faulty = Array.from({ length: 40 }, (_, n) =>
    scene.service.add(`faulty-${n}`, { image: n % 2 === 0 ? 'missing' : 'bad-outputs' }),
  );
  const good = scene.service.add('good');
  await scene.start();
  const before = scene.clock.nowMs();
  await scene.reaches(good, 'COMPLETED');
  assert.ok(scene.clock.nowMs() - before < 3000, `${scene.clock.nowMs() - before} ms`);
  for (const run of faulty) await scene.reaches(run, 'FAILED');
  await scene.end();
});

test('reports the chosen GPU and hands it to the container', async () => {
  const gpus = [
    { id: 0, vramMb: 24_000, tags: [] },
    { id: 1, vramMb: 8000, tags: [] },
  ];
  const scene = makeScene({ resources: { gpus } });
  const run = scene.service.add('run-1', { constraints: { ramMb: 0, vramMb: 6000, cpu: 0, gpuId: null } });
  await scene.start();
  const container = await scene.container();
  assert.equal(container.spec.limits.gpuId, 1);
  assert.deepEqual(run.timeline[0]?.payload, { worker_id: 'rack/7:a', gpu_id: 1 });
  container.end(0);
  await scene.end();
});

test('takes no more work while the ends of too many runs are still to be reported', async () => {
  const scene = makeScene();
  for (let n = 0; n < 30; n++) scene.service.add(`run-${n}`);
  scene.service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? DOWN : undefined);
  scene.runtime.onStart = (container) => container.end(0);
  await scene.start();
  await scene.clock.pass(120_000);
  assert.equal(scene.runtime.containers.length, 8);
  scene.service.onCall = () => undefined;
  for (const run of scene.service.runs.values()) await scene.reaches(run, 'COMPLETED');
  await scene.end();
});

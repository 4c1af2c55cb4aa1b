import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { settle } from './testing/fake-clock.js';
import { DOWN } from './testing/fake-service.js';
import { makeScene } from './testing/scene.js';
import { errorMessage, types } from './testing/timeline.js';

test('takes a run from the claim to COMPLETED with its outputs and leaves nothing behind', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1', { inputs: { text: 'a b' }, outputs: { url: 'https://put.here' } });
  await scene.start();
  const container = await scene.container();
  const { folder } = container.spec;
  assert.deepEqual(JSON.parse(readFileSync(join(folder, 'input.json'), 'utf8')), { text: 'a b' });
  assert.deepEqual(JSON.parse(readFileSync(join(folder, 'output.json'), 'utf8')), {
    url: 'https://put.here',
  });
  assert.equal(statSync(folder).mode & 0o777, 0o777);
  assert.equal(statSync(join(folder, '..')).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, 'output.json')).mode & 0o777, 0o666);
  container.print('hello', '{"type":"PROGRESS","msg":50}', '{"type":"COMPLETED","msg":"no"}');
  await container.writeOutputs('{"words":2}');
  container.end(0);
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(types(run), ['STARTED', 'PROGRESS', 'COMPLETED']);
  assert.deepEqual(run.timeline[0]?.payload, { worker_id: 'rack/7:a' });
  assert.deepEqual(run.timeline.at(-1)?.payload, { outputs: { words: 2 } });
  assert.equal(await scene.end(), 0);
  assert.ok(container.removed);
  assert.deepEqual(scene.folders(), []);
  assert.equal(scene.runtime.leftoversRemoved, 1);
});

test('reports FAILED with the exit code and the last 20 lines', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  container.print(...Array.from({ length: 100 }, (_, n) => `line ${n}.`));
  container.end(3);
  await scene.reaches(run, 'FAILED');
  const message = errorMessage(run);
  assert.match(message, /exit code 3/);
  assert.ok(message.includes('line 80.') && message.includes('line 99.') && !message.includes('line 79.'));
  assert.equal(await scene.end(), 0);
});

test('reports FAILED with the reason when the image is to be had nowhere', async () => {
  const scene = makeScene();
  scene.runtime.onPull = async () => {
    throw new Error("image 'example/image:1' not found");
  };
  const run = scene.service.add('run-1');
  await scene.start();
  await scene.reaches(run, 'FAILED');
  assert.deepEqual(types(run), ['FAILED']);
  assert.equal(errorMessage(run), "image 'example/image:1' not found");
  await scene.end();
});

test('drops a log event that the service refuses for what it says, and goes on', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  scene.service.onCall = ({ event }) =>
    event?.type === 'BAD' ? { kind: 'refused', status: 400, detail: 'Request validation failed' } : undefined;
  scene.runtime.onStart = (container) => {
    container.print('{"type":"BAD","msg":1}', '{"type":"GOOD","msg":1}');
    container.end(0);
  };
  await scene.start();
  await scene.reaches(run, 'COMPLETED');
  assert.deepEqual(types(run), ['STARTED', 'GOOD', 'COMPLETED']);
  assert.ok(scene.log.some((line) => line.includes('refused a log event')));
  await scene.end();
});

for (const [what, refusal] of [
  ['too large', { kind: 'refused', status: 413, detail: 'Request body too large' }],
  ['not storable', { kind: 'refused', status: 400, detail: 'Request validation failed' }],
] as const) {
  test(`ends a run FAILED whose outputs the service finds ${what}`, async () => {
    const scene = makeScene();
    const run = scene.service.add('run-1');
    scene.service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? refusal : undefined);
    scene.runtime.onStart = (container) => container.end(0);
    await scene.start();
    await scene.reaches(run, 'FAILED');
    assert.match(errorMessage(run), /refused the run's outputs/);
    await scene.end();
  });
}

test('ends a run FAILED that left outputs nobody can read', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  scene.runtime.onStart = async (container) => {
    await container.writeOutputs('[1, 2]');
    container.end(0);
  };
  await scene.start();
  await scene.reaches(run, 'FAILED');
  assert.match(errorMessage(run), /output file cannot be used: it holds no JSON object/);
  await scene.end();
});

test('ends a run FAILED even when the service refuses the reason', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  scene.service.onCall = ({ event }) =>
    JSON.stringify(event ?? {}).includes('secret sauce')
      ? { kind: 'refused', status: 400, detail: 'Request validation failed' }
      : undefined;
  scene.runtime.onPull = async () => {
    throw new Error('no secret sauce');
  };
  await scene.start();
  await scene.reaches(run, 'FAILED');
  assert.match(errorMessage(run), /refused the reason/);
  await scene.end();
});

test('reads a flood of a million lines without growing and without missing heartbeats', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  const heapMb: number[] = [];
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 20);
  async function* flood() {
    turns = 0;
    for (let n = 0; n < 1_000_000; n++) {
      yield { stream: 'stdout' as const, text: `line ${n} ${'x'.repeat(100)}` };
      if (n === 100_000 || n === 900_000) heapMb.push(heapAfterCollection());
    }
  }
  scene.runtime.onStart = (container) => {
    container.lines = flood();
    container.end(1);
  };
  await scene.start();
  await scene.reaches(run, 'FAILED');
  clearInterval(timer);
  const [early = 0, late = 0] = heapMb;
  assert.ok(turns >= 5, `${turns} turns for timers during the flood`);
  assert.ok(errorMessage(run).includes('line 999999'));
  assert.ok(late - early < 10, `heap grew from ${early.toFixed(1)} to ${late.toFixed(1)} MB`);
  await scene.end();
});

function heapAfterCollection(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed / 2 ** 20;
}

test('makes a container that prints events wait while the service takes none', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  let pulled = 0;
  async function* flood() {
    for (; pulled < 1_000_000; pulled++) yield { stream: 'stdout' as const, text: '{"type":"NOTE","msg":1}' };
  }
  scene.runtime.onStart = (container) => {
    scene.service.onCall = ({ what }) => (what === 'postEvent' ? DOWN : undefined);
    container.lines = flood();
  };
  await scene.start();
  const container = await scene.container();
  await scene.clock.pass(300_000);
  assert.ok(pulled >= 100 && pulled <= 102, `${pulled} lines taken`);
  run.state = 'CANCELLED';
  await scene.clock.pass(10_000);
  await settle();
  assert.ok(container.stopped && container.removed);
  assert.ok(pulled <= 102);
  await scene.end();
});

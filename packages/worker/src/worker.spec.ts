import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ChunkAddress } from './service-api/service-api.js';
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
  const looks = scene.service.callsOf('getRun').length;
  await scene.clock.pass(60_000);
  assert.equal(scene.service.callsOf('getRun').length, looks, 'an ended run is not looked after');
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

const LOG_TAKERS = {
  'takes its log': async ({ number }: ChunkAddress) =>
    ({ kind: 'ok', value: { nextChunk: number + 1 } }) as const,
  'takes no log': async () => DOWN,
  'never answers to its log': () => new Promise<never>(() => undefined),
};

for (const [what, putLogChunk] of Object.entries(LOG_TAKERS)) {
  test(`reads a flood of a million lines without growing and without missing heartbeats when the service ${what}`, async () => {
    const scene = makeScene();
    scene.service.putLogChunk = putLogChunk;
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
}

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
  await scene.clock.settle();
  assert.ok(container.stopped && container.removed);
  await scene.end();
});

test('removes what an earlier life left behind before it claims anything', async () => {
  const scene = makeScene();
  mkdirSync(join(scene.root, 'old-run-1-x'), { recursive: true });
  let tries = 0;
  scene.runtime.removeLeftovers = async () => {
    if (++tries < 4) throw new Error('engine not up yet');
    return 2;
  };
  const run = scene.service.add('run-1');
  scene.runtime.onStart = (container) => container.end(0);
  const started = scene.start();
  await scene.clock.settle();
  assert.deepEqual(scene.folders(), []);
  assert.equal(scene.service.calls.length, 0);
  await scene.clock.pass(30_000);
  await started;
  assert.equal(tries, 4);
  await scene.reaches(run, 'COMPLETED');
  await scene.end();
});

test('executes a run once that the service hands out twice', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1', { state: 'ASSIGNED', workerId: 'rack/7:a' });
  const { id, image, inputs, constraints, attempt } = run;
  scene.service.claim = async () => ({
    kind: 'ok',
    value: [{ id, image, inputs, constraints, attempt, trace: null }],
  });
  await scene.start();
  const container = await scene.container();
  await scene.clock.pass(60_000);
  assert.equal(scene.runtime.containers.length, 1);
  scene.worker.shutDown();
  container.end(0);
  await scene.end();
  assert.deepEqual(types(run), ['STARTED', 'COMPLETED']);
});

test('reports the end of a container that has ended without waiting for its removal', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1');
  await scene.start();
  const container = await scene.container();
  let release: (() => void) | undefined;
  container.remove = () =>
    new Promise((resolve) => {
      release = resolve;
    });
  const began = scene.clock.nowMs();
  container.end(0);
  await scene.clock.until('the end is reported', () => run.state === 'COMPLETED', 20);
  assert.ok(scene.clock.nowMs() - began < 1_000);
  release?.();
  await scene.end();
});

test('keeps trying to remove a container that the engine does not let go, and reports its end meanwhile', async () => {
  const scene = makeScene();
  const run = scene.service.add('run-1', { constraints: { ramMb: 0, vramMb: 0, cpu: 4, gpuId: null } });
  const next = scene.service.add('run-2');
  await scene.start();
  const container = await scene.container();
  let tries = 0;
  container.remove = async () => {
    tries += 1;
    throw new Error('device or resource busy');
  };
  container.end(0);
  await scene.clock.pass(20_000);
  assert.equal(run.state, 'COMPLETED');
  assert.ok(tries > 2);
  assert.equal(next.state, 'PENDING', 'its share of the machine is not free yet');
  scene.runtime.onStart = (other) => other.end(0);
  await scene.clock.pass(180_000);
  assert.equal(tries, 8);
  assert.equal(next.state, 'COMPLETED');
  assert.deepEqual(scene.folders(), []);
  await scene.end();
});

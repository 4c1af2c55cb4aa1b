import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'vitest';
import { NO_CONSTRAINTS } from '../../service-api/constraints.js';
import type { ChunkAddress, LogChunk } from '../../service-api/service-api.js';
import type { FakeRun } from '../fake-run.js';
import { DOWN, errorMessage, eventTypes } from '../fake-service.js';
import { makeHarness, startedRun } from '../worker-harness.js';

test('executes a run from the claim to COMPLETED and removes the container', async () => {
  const { harness, clock, service, runtime, run, container } = await startedRun(
    {},
    { inputs: { text: 'a b' }, outputs: { url: 'https://put.here' } },
  );
  assert.deepEqual(container.spec.inputs, { text: 'a b' });
  assert.deepEqual(container.spec.outputTemplate, { url: 'https://put.here' });
  container.print('hello', '{"type":"PROGRESS","msg":50}', '{"type":"COMPLETED","msg":"no"}');
  container.writeOutputs('{"words":2}');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  assert.deepEqual(eventTypes(run), ['STARTED', 'PROGRESS', 'COMPLETED']);
  assert.deepEqual(run.timeline[0]?.payload, { worker_id: 'rack/7:a' });
  assert.deepEqual(run.timeline.at(-1)?.payload, { outputs: { words: 2 } });
  const looks = service.callsOf('getRun').length;
  await clock.pass(60_000);
  assert.equal(service.callsOf('getRun').length, looks, 'an ended run is not looked after');
  assert.equal(await harness.end(), 0);
  assert.ok(container.removed);
  assert.ok(runtime.leftoversRemoved >= 1);
});

test('reports when the container ran with its end, also when the service does not answer for long', async () => {
  const harness = makeHarness();
  const { clock, runtime, service } = harness;
  const ends = [0, 1];
  const runs = ends.map((code) => service.add(`run-${code}`, { image: String(code) }));
  const ranAt = { startedAt: '2026-05-04T10:00:00.000Z', finishedAt: '2026-05-04T10:00:09.000Z' };
  runtime.onStart = (container) => {
    container.ranAt = ranAt;
    service.onCall = ({ event }) => (event?.type === 'STARTED' || event === undefined ? undefined : DOWN);
    container.end(Number(container.spec.image));
  };
  await harness.start();
  await clock.pass(60_000);
  service.onCall = () => undefined;
  for (const run of runs) {
    await harness.untilState(run, run.id === 'run-0' ? 'COMPLETED' : 'FAILED');
    const { started_at: startedAt, finished_at: finishedAt } = run.timeline.at(-1)?.payload ?? {};
    assert.deepEqual({ startedAt, finishedAt }, ranAt);
  }
});

test('reports FAILED with the exit code and the last 20 lines', async () => {
  const { harness, run, container } = await startedRun();
  container.print(...Array.from({ length: 100 }, (_, n) => `line ${n}.`));
  container.end(3);
  await harness.untilState(run, 'FAILED');
  const message = errorMessage(run);
  assert.match(message, /exit code 3/);
  assert.ok(message.includes('line 80.') && message.includes('line 99.') && !message.includes('line 79.'));
  assert.equal(await harness.end(), 0);
});

test('reports FAILED with the reason when the image is not found', async () => {
  const harness = makeHarness();
  harness.runtime.onPull = async () => {
    throw new Error("image 'example/image:1' not found");
  };
  const run = await harness.execute('FAILED');
  assert.deepEqual(eventTypes(run), ['FAILED']);
  assert.equal(errorMessage(run), "image 'example/image:1' not found");
});

test('drops a log event whose content the service refuses, and tells it in its place', async () => {
  const harness = makeHarness();
  harness.service.onCall = ({ event }) =>
    event?.type === 'BAD' ? { kind: 'refused', status: 400, detail: 'Request validation failed' } : undefined;
  harness.runtime.onStart = (container) => {
    container.print('{"type":"BAD","msg":1}', '{"type":"GOOD","msg":1}');
    container.end(0);
  };
  const run = await harness.execute('COMPLETED');
  assert.deepEqual(eventTypes(run), ['STARTED', 'EVENTS_DROPPED', 'GOOD', 'COMPLETED']);
  assert.ok(harness.log.some((line) => line.includes('refused a log event')));
});

for (const [what, refusal] of [
  ['too large', { kind: 'refused', status: 413, detail: 'Request body too large' }],
  ['not storable', { kind: 'refused', status: 400, detail: 'Request validation failed' }],
] as const) {
  test(`reports FAILED when the service finds the outputs ${what}`, async () => {
    const harness = makeHarness();
    harness.service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? refusal : undefined);
    harness.runtime.onStart = (container) => container.end(0);
    const run = await harness.execute('FAILED');
    assert.match(errorMessage(run), /refused the run's outputs/);
  });
}

test('reports FAILED when the outputs are not readable', async () => {
  const harness = makeHarness();
  harness.runtime.onStart = async (container) => {
    container.writeOutputs('[1, 2]');
    container.end(0);
  };
  const run = await harness.execute('FAILED');
  assert.match(errorMessage(run), /output file cannot be used: it holds no JSON object/);
});

test('reports FAILED without sending outputs that are larger than the service takes', async () => {
  const harness = makeHarness();
  harness.service.maxBodyBytes = 1000;
  harness.runtime.onStart = (container) => {
    container.writeOutputs(JSON.stringify({ text: 'x'.repeat(1000) }));
    container.end(0);
  };
  const run = await harness.execute('FAILED');
  assert.match(
    errorMessage(run),
    /it has 1011 bytes without white space; the service takes at most \d+ bytes/,
  );
  assert.deepEqual(eventTypes(run), ['STARTED', 'FAILED']);
  assert.ok(harness.service.callsOf('postEvent').every(({ event }) => event?.type !== 'COMPLETED'));
});

test('reports FAILED even when the service refuses the reason', async () => {
  const harness = makeHarness();
  harness.service.onCall = ({ event }) =>
    JSON.stringify(event ?? {}).includes('secret sauce')
      ? { kind: 'refused', status: 400, detail: 'Request validation failed' }
      : undefined;
  harness.runtime.onPull = async () => {
    throw new Error('no secret sauce');
  };
  const run = await harness.execute('FAILED');
  assert.match(errorMessage(run), /refused the reason/);
});

const LOG_TAKERS = {
  'takes its log': async ({ number }: ChunkAddress, { firstLine, lines }: LogChunk) =>
    ({ kind: 'ok', value: { nextChunk: number + 1, nextLine: firstLine + lines.length } }) as const,
  'takes no log': async () => DOWN,
  /** Until the timeout of each request. */
  'never answers to its log': null,
};

/** A worker that kept them would hold 20 MB more. */
const FLOOD_LINES = process.env['LONGSHORE_TEST_TIER'] === 'fast' ? 200_000 : 1_000_000;

for (const [what, putLogChunk] of Object.entries(LOG_TAKERS)) {
  test(`reads ${FLOOD_LINES} lines in bounded memory with heartbeats on time when the service ${what}`, async () => {
    const harness = makeHarness();
    if (putLogChunk !== null) harness.service.putLogChunk = putLogChunk;
    else harness.service.onCall = ({ what: called }) => (called === 'putLogChunk' ? 'hang' : undefined);
    const heapMb: number[] = [];
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 20);
    async function* flood() {
      turns = 0;
      for (let n = 0; n < FLOOD_LINES; n++) {
        yield { stream: 'stdout' as const, text: `line ${n} ${'x'.repeat(100)}` };
        if (n === FLOOD_LINES * 0.1 || n === FLOOD_LINES * 0.9) heapMb.push(heapAfterCollection());
      }
    }
    harness.runtime.onStart = (container) => {
      container.lines = flood();
      container.end(1);
    };
    const run = await harness.execute('FAILED');
    clearInterval(timer);
    const [early = 0, late = 0] = heapMb;
    assert.ok(turns >= 5, `${turns} turns for timers during the flood`);
    assert.ok(errorMessage(run).includes(`line ${FLOOD_LINES - 1}`));
    assert.ok(late - early < 10, `heap grew from ${early.toFixed(1)} to ${late.toFixed(1)} MB`);
  });
}

function heapAfterCollection(): number {
  gc?.();
  return process.memoryUsage().heapUsed / 2 ** 20;
}

test('stops reading events while the service accepts none', async () => {
  const harness = makeHarness();
  const run = harness.service.add('run-1');
  let pulled = 0;
  async function* flood() {
    for (; pulled < 10_000; pulled++) yield { stream: 'stdout' as const, text: '{"type":"NOTE","msg":1}' };
  }
  harness.runtime.onStart = (container) => {
    harness.service.onCall = ({ what }) => (what === 'postEvent' ? DOWN : undefined);
    container.lines = flood();
  };
  await harness.start();
  const container = await harness.container();
  await harness.clock.pass(300_000);
  assert.ok(pulled >= 100 && pulled <= 102, `${pulled} lines taken`);
  run.state = 'CANCELLED';
  await harness.clock.pass(10_000);
  await harness.clock.settle();
  assert.ok(container.stopped && container.removed);
});

test('removes the leftovers of a previous process before the first claim', async () => {
  const harness = makeHarness();
  let tries = 0;
  harness.runtime.removeLeftovers = async () => {
    if (++tries < 4) throw new Error('engine not up yet');
    return 2;
  };
  const run = harness.service.add('run-1');
  harness.runtime.onStart = (container) => container.end(0);
  await harness.start();
  await harness.clock.settle();
  assert.deepEqual(harness.service.callsOf('claim'), []);
  await harness.clock.pass(30_000);
  assert.equal(tries, 4);
  await harness.untilState(run, 'COMPLETED');
});

test('reports the end of a container that has ended without waiting for its removal', async () => {
  const { clock, run, container } = await startedRun();
  let release: (() => void) | undefined;
  container.remove = () =>
    new Promise((resolve) => {
      release = resolve;
    });
  const began = clock.nowMs();
  container.end(0);
  await clock.until('the end is reported', () => run.state === 'COMPLETED', 20);
  assert.ok(clock.nowMs() - began < 1_000);
  release?.();
});

test('keeps trying to remove a container, and reports the end of its run meanwhile', async () => {
  const harness = makeHarness();
  const run = harness.service.add('run-1', { constraints: { ...NO_CONSTRAINTS, cpuMillis: 4000 } });
  const next = harness.service.add('run-2');
  await harness.start();
  const container = await harness.container();
  let tries = 0;
  container.remove = async () => {
    tries += 1;
    throw new Error('device or resource busy');
  };
  container.end(0);
  await harness.clock.pass(20_000);
  assert.equal(run.state, 'COMPLETED');
  assert.ok(tries > 2);
  assert.equal(next.state, 'PENDING', 'its resources are not released yet');
  harness.runtime.onStart = (other) => other.end(0);
  await harness.clock.pass(180_000);
  assert.equal(tries, 8);
  assert.equal(next.state, 'COMPLETED');
});

test('says what it prepares: at once for a run that must start in time, else if the pull takes long', async () => {
  const harness = makeHarness();
  const { clock, runtime, service } = harness;
  const pulled = new AbortController();
  const untilPulled = once(pulled.signal, 'abort');
  runtime.onPull = async () => void (await untilPulled);
  const urgent = service.add('urgent', { mustStartInTime: true });
  const patient = service.add('patient');
  const told = [{ type: 'PREPARING', msg: 'Pulling the image example/image:1' }];
  await harness.start();
  await clock.pass(1_000);
  assert.deepEqual([toldBy(urgent), toldBy(patient)], [told, []]);
  await clock.pass(2_000);
  assert.deepEqual([toldBy(urgent), toldBy(patient)], [told, told]);
  runtime.onStart = (container) => container.end(0);
  pulled.abort();
  await harness.untilState(urgent, 'COMPLETED');
  await harness.untilState(patient, 'COMPLETED');
  assert.deepEqual(eventTypes(patient), ['PREPARING', 'STARTED', 'COMPLETED']);
  const quick = await harness.execute('COMPLETED');
  assert.deepEqual(eventTypes(quick), ['STARTED', 'COMPLETED']);
});

function toldBy({ timeline }: FakeRun): unknown[] {
  return timeline.map(({ type, msg }) => ({ type, msg }));
}

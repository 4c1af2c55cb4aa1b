import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { Answer } from '../../service-api/service-api.js';
import { DOWN, eventTypes } from '../fake-service.js';
import { makeHarness, startedRun } from '../worker-harness.js';

test('loses no run and repeats no event when every second answer is lost', async () => {
  const harness = makeHarness();
  const calls = new Map<string, number>();
  harness.service.onCall = ({ what }) => {
    const count = (calls.get(what) ?? 0) + 1;
    calls.set(what, count);
    return count % 2 === 1 ? 'lose-answer' : undefined;
  };
  harness.runtime.onStart = (container) => {
    container.print('{"type":"NOTE","msg":"once"}');
    container.end(0);
  };
  const runs = Array.from({ length: 10 }, (_, n) => harness.service.add(`run-${n}`));
  await harness.start();
  for (const run of runs) await harness.untilState(run, 'COMPLETED');
  for (const run of runs) assert.deepEqual(eventTypes(run), ['STARTED', 'NOTE', 'COMPLETED']);
  assert.equal(harness.runtime.containers.length, 10);
});

test('repeats an unanswered claim under the same key, and uses a new key after an answer', async () => {
  const harness = makeHarness();
  let lost = 3;
  harness.service.onCall = ({ what }) => (what === 'claim' && lost-- > 0 ? 'lose-answer' : undefined);
  harness.service.add('run-1');
  await harness.start();
  await harness.container();
  const keys = harness.service.callsOf('claim').map(({ key }) => key);
  assert.equal(new Set(keys.slice(0, 4)).size, 1);
  await harness.clock.until(
    'a claim with another key',
    () => {
      return harness.service.callsOf('claim').at(-1)?.key !== keys[0];
    },
    100,
  );
  harness.runtime.containers[0]?.end(0);
});

test('keeps the container running during an outage and reports its end afterwards', async () => {
  const { harness, clock, service, run, container } = await startedRun();
  service.onCall = () => DOWN;
  await clock.pass(600_000);
  assert.equal(container.stopped, false);
  container.writeOutputs('{"ok":true}');
  container.end(0);
  const isTried = () => service.calls.some(({ event }) => event?.type === 'COMPLETED');
  await clock.until('a final event is tried', isTried, 100);
  await clock.pass(600_000);
  const tries = service.calls.filter(({ event }) => event?.type === 'COMPLETED');
  assert.ok(tries.length > 30 && tries.length < 90, `${tries.length} tries in 10 minutes`);
  assert.equal(new Set(tries.map(({ key }) => key)).size, 1);
  service.onCall = () => undefined;
  await harness.untilState(run, 'COMPLETED');
  assert.deepEqual(run.timeline.at(-1)?.payload, { outputs: { ok: true } });
});

test('backs off with every request while the service answers 5xx', async () => {
  const harness = makeHarness();
  harness.service.tellsLostRuns = false;
  harness.service.add('run-1');
  await harness.start();
  const container = await harness.container();
  harness.service.calls.length = 0;
  harness.service.onCall = () => DOWN;
  await harness.clock.pass(600_000);
  for (const what of ['heartbeat', 'getRun'] as const) {
    const count = harness.service.callsOf(what).length;
    assert.ok(count >= 15 && count <= 150, `${count} times ${what} in 10 minutes`);
  }
  assert.equal(harness.service.callsOf('claim').length, 1, 'no claim before a heartbeat is taken again');
  harness.service.onCall = () => undefined;
  container.end(0);
});

test('never stops a container because of 404, 5xx or no answer about its run', async () => {
  const harness = makeHarness();
  harness.service.tellsLostRuns = false;
  harness.service.add('run-1');
  await harness.start();
  const container = await harness.container();
  let turn = 0;
  harness.service.onCall = ({ what }) => {
    if (what !== 'getRun') return undefined;
    const faults = [
      { kind: 'refused', status: 404, detail: "OpRun 'run-1' not found" },
      DOWN,
      'hang',
    ] as const;
    return faults[turn++ % 3];
  };
  await harness.clock.pass(300_000);
  assert.ok(turn > 10);
  assert.equal(container.stopped, false);
  harness.service.onCall = () => undefined;
  container.end(0);
});

test('sends heartbeats on time, with its runs, while a pull hangs', async () => {
  const harness = makeHarness({ env: { SERVICE_WORKER_TIMEOUT: '6', SERVICE_WORKER_TICK: '10' } });
  harness.runtime.onPull = () => new Promise(() => undefined);
  harness.service.add('run-1');
  await harness.start();
  await harness.clock.until('pulling', () => harness.runtime.pulls.length === 1, 20);
  harness.service.calls.length = 0;
  await harness.clock.pass(60_000);
  const beats = harness.service.callsOf('heartbeat');
  assert.ok(beats.length >= 59, `${beats.length} heartbeats in 60 s`);
  assert.deepEqual(
    beats.at(-1)?.report?.runningOps.map(({ id }) => id),
    ['run-1'],
  );
  assert.equal(await harness.end(), 0);
});

test("derives the heartbeat interval from the service's worker timeout", async () => {
  const harness = makeHarness({ env: { SERVICE_WORKER_TICK: '10' } });
  harness.service.workerTimeoutSeconds = 3;
  await harness.start();
  await harness.clock.pass(30_000);
  const count = harness.service.callsOf('heartbeat').length;
  assert.ok(count >= 58 && count <= 62, `${count} heartbeats in 30 s`);
});

test('exits with 1 when the service refuses the first heartbeat, but not a later one', async () => {
  const misfit = { kind: 'refused', status: 400, detail: 'Request validation failed' } as const;
  const first = makeHarness();
  first.service.onCall = () => misfit;
  await first.start();
  await first.clock.until('the worker ends', () => first.exitCode() !== null, 100);
  assert.equal(first.exitCode(), 1);

  const later = makeHarness();
  await later.start();
  await later.clock.pass(10_000);
  later.service.onCall = () => misfit;
  await later.clock.pass(120_000);
  assert.equal(later.exitCode(), null);
  await later.end();
});

test('sends heartbeats without inputs after the service found one too large', async () => {
  const harness = makeHarness();
  harness.service.add('run-1', { inputs: { text: 'x'.repeat(1000) } });
  harness.service.onCall = ({ report }) =>
    JSON.stringify(report ?? {}).length > 1000
      ? { kind: 'refused', status: 413, detail: 'Request body too large' }
      : undefined;
  await harness.start();
  const container = await harness.container();
  await harness.clock.pass(30_000);
  const last = harness.service.callsOf('heartbeat').at(-1)?.report;
  assert.deepEqual(
    last?.runningOps.map(({ id, inputs }) => [id, inputs]),
    [['run-1', {}]],
  );
  container.end(0);
});

/** A page of a proxy in answer to a large report. */
function refusal(status: number): Answer<never> {
  return { kind: 'unreachable', reason: `HTTP ${status}`, status, refusedBytes: 1_572_864 };
}

describe('a proxy that refuses what a report contains, while it lets heartbeats pass,', () => {
  test('fails a run whose outputs it refuses for the worker timeout, with the bytes and the status', async () => {
    const { harness, clock, service, run, container } = await startedRun();
    service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? refusal(413) : undefined);
    container.writeOutputs('{"ok":true}');
    container.end(0);
    await clock.pass(50_000);
    assert.equal(run.state, 'RUNNING');
    await clock.until('the end is reported', () => run.state === 'FAILED', 1_000);
    const tries = service.calls.filter(({ event }) => event?.type === 'COMPLETED');
    assert.ok(tries.length >= 5);
    const { error_message: message, cause } = run.timeline.at(-1)?.payload ?? {};
    assert.deepEqual(
      [message, cause],
      [
        'The outputs of the run do not reach the service: a proxy in front of the service refuses 1572864 bytes with HTTP 413',
        'error',
      ],
    );
    assert.equal(await harness.end(), 0);
  });

  test('leaves a failed run its cause and exit code when it refuses the reason, and may refuse that for long', async () => {
    const { clock, service, run, container } = await startedRun();
    service.onCall = ({ event }) => (event?.type === 'FAILED' ? refusal(403) : undefined);
    container.print('select * from users');
    container.end(3);
    await clock.pass(600_000);
    assert.equal(run.state, 'RUNNING');
    service.onCall = () => undefined;
    await clock.until('the end is reported', () => run.state === 'FAILED', 1_000);
    assert.deepEqual(Object.entries(run.timeline.at(-1)?.payload ?? {}).slice(0, 3), [
      ['error_message', 'A proxy in front of the service refused the reason of the failure (403)'],
      ['cause', 'exit'],
      ['exit_code', 3],
    ]);
  });

  test('costs an event of the log alone, in whose place the reason is told', async () => {
    const { harness, clock, service, run, container } = await startedRun();
    service.onCall = ({ event }) => (event?.type === 'ODD' ? refusal(406) : undefined);
    container.print('{"type":"ODD","msg":1}');
    container.print('{"type":"NOTE","msg":2}');
    await clock.until('the next event', () => eventTypes(run).includes('NOTE'), 1_000);
    assert.deepEqual(eventTypes(run), ['STARTED', 'EVENTS_DROPPED', 'NOTE']);
    assert.match(String(run.timeline[1]?.msg), /a proxy in front of the service refuses 1572864 bytes/);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
  });

  test('is taken for an outage while it refuses heartbeats too', async () => {
    const { harness, clock, service, run, container } = await startedRun();
    service.onCall = () => refusal(403);
    container.end(0);
    await clock.pass(600_000);
    service.onCall = () => undefined;
    await harness.untilState(run, 'COMPLETED');
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { NO_CONSTRAINTS } from '../../service-api/constraints.js';
import type { FakeRun } from '../fake-run.js';
import { DOWN, eventTypes, type Call } from '../fake-service.js';
import { makeHarness, startedRun, type WorkerHarness } from '../worker-harness.js';

const MANY = { env: { SERVICE_WORKER_MAX_RUNS: '20' }, resources: { cpuCores: 20 } };

async function runMany(harness: WorkerHarness, count: number): Promise<FakeRun[]> {
  const runs = Array.from({ length: count }, (_, n) => harness.service.add(`run-${n}`));
  await harness.start();
  for (const run of runs) await harness.untilState(run, 'RUNNING');
  return runs;
}

const isWhole = ({ report }: Call): boolean => (report?.capabilities ?? []).length > 0;

const pollsAfterStart = ({ service }: WorkerHarness): Call[] => service.callsOf('getRun');

describe('a worker whose service tells of lost runs', () => {
  it('holds one heartbeat for all its runs, and polls none', async () => {
    const harness = makeHarness(MANY);
    await runMany(harness, 20);
    await harness.clock.pass(5_000);
    harness.service.calls.length = 0;
    await harness.clock.pass(600_000);
    const beats = harness.service.callsOf('heartbeat');
    assert.ok(beats.length >= 59 && beats.length <= 61, `${beats.length} heartbeats in 10 minutes`);
    assert.ok(
      beats.every(({ report, waitSeconds }) => waitSeconds === 10 && report?.runningOps.length === 20),
    );
    assert.deepEqual(pollsAfterStart(harness), []);
  });

  it('stops the container of each lost run within a second, whatever the others do', async () => {
    const harness = makeHarness(MANY);
    const runs = await runMany(harness, 20);
    for (const [n, run] of runs.entries()) {
      await harness.clock.pass(700);
      const changes: readonly Partial<FakeRun>[] = [
        { state: 'CANCELLED' },
        { state: 'FAILED' },
        { attempt: 2, state: 'RUNNING' },
        { attempt: 2, state: 'ASSIGNED', workerId: 'other' },
        { state: 'PENDING', workerId: null, attempt: 2 },
      ];
      const change = changes[n % changes.length] ?? {};
      // Not claimable by this worker again.
      Object.assign(run, change, change.state === 'PENDING' ? { state: 'ASSIGNED' } : {});
      await harness.clock.pass(1_000);
      const stopped = harness.runtime.containers.filter((container) => container.stopped);
      assert.equal(stopped.length, n + 1);
      assert.ok(stopped.some(({ spec }) => spec.runId === run.id));
    }
    for (const run of runs) assert.deepEqual(eventTypes(run), ['STARTED']);
    assert.equal(await harness.end(), 0);
  });

  it('reports nothing more of a lost run, nor what waited for the service', async () => {
    const { clock, service, run, container } = await startedRun();
    service.onCall = ({ event }) => (event?.type === 'PROGRESS' ? DOWN : undefined);
    container.print('{"type":"PROGRESS","msg":50}');
    await clock.pass(5_000);
    run.state = 'CANCELLED';
    await clock.pass(2_000);
    service.calls.length = 0;
    service.onCall = () => undefined;
    await clock.pass(60_000);
    assert.deepEqual(service.callsOf('postEvent'), []);
  });

  it('sends at most two heartbeats a second, however many runs it claims and loses', async () => {
    const harness = makeHarness(MANY);
    await harness.start();
    harness.runtime.onStart = (container) => container.end(0);
    await harness.clock.pass(2_000);
    harness.service.calls.length = 0;
    for (let n = 0; n < 600; n += 1) {
      const run = harness.service.add(`run-${n}`);
      await harness.clock.pass(100);
      if (n % 3 === 0) run.state = 'CANCELLED';
    }
    const beats = harness.service.callsOf('heartbeat').length;
    assert.ok(beats >= 6 && beats <= 125, `${beats} heartbeats in a minute`);
  });

  it('does not list a run that it has lost, while its container ends', async () => {
    const { clock, service, run, container } = await startedRun();
    container.stop = () => new Promise(() => undefined);
    run.state = 'CANCELLED';
    await clock.pass(2_000);
    service.calls.length = 0;
    await clock.pass(14_000);
    const beats = service.callsOf('heartbeat');
    assert.ok(beats.length >= 1 && beats.length <= 3, `${beats.length} heartbeats`);
    assert.ok(beats.every(({ report }) => report?.runningOps.length === 0));
  });

  it('goes on reporting an end that the service has taken although its answer was lost', async () => {
    const { harness, clock, service, run, container } = await startedRun();
    service.onCall = ({ event }) => (event?.type === 'COMPLETED' ? 'lose-answer' : undefined);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    service.calls.length = 0;
    await clock.pass(60_000);
    assert.ok(service.callsOf('postEvent').length > 2);
    assert.ok(service.callsOf('heartbeat').length < 12);
    service.onCall = () => undefined;
    assert.equal(await harness.end(), 0);
  });

  it('ignores an answer that names another attempt, a run of its own or one that it has not', async () => {
    const { harness, clock, service, run, container } = await startedRun();
    const beat = service.heartbeat.bind(service);
    service.heartbeat = async (report, call) => {
      const answer = await beat(report, call);
      if (answer.kind !== 'ok') return answer;
      const lostRuns = [
        { id: 'run-1', state: 'RUNNING', currentAttempt: 1, workerId: 'rack/7:a' },
        { id: 'run-2', state: 'CANCELLED', currentAttempt: 1, workerId: 'rack/7:a' },
      ];
      return { ...answer, value: { ...answer.value, lostRuns } };
    };
    await clock.pass(60_000);
    assert.equal(container.stopped, false);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
  });

  it('stops no container because heartbeats are refused, unanswered or answered with 5xx', async () => {
    const { harness, clock, service, run, container } = await startedRun();
    let turn = 0;
    const faults = [
      { kind: 'refused', status: 404, detail: 'Not found' },
      DOWN,
      'hang',
      'lose-answer',
    ] as const;
    service.onCall = ({ what }) => (what === 'heartbeat' ? faults[turn++ % faults.length] : undefined);
    await clock.pass(300_000);
    assert.ok(turn > 10);
    assert.equal(container.stopped, false);
    service.onCall = () => undefined;
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
  });

  it('polls its runs while its heartbeats fail, and no more after the next accepted one', async () => {
    const harness = makeHarness();
    const kept = harness.service.add('run-1');
    const run = harness.service.add('run-2');
    await harness.start();
    for (const held of [kept, run]) await harness.untilState(held, 'RUNNING');
    const busy = { kind: 'unreachable', reason: 'HTTP 429', retryAfterSeconds: 5 } as const;
    harness.service.onCall = ({ what }) => (what === 'heartbeat' ? busy : undefined);
    await harness.clock.pass(15_000);
    Object.assign(run, { attempt: 2, state: 'RUNNING', workerId: 'other' });
    await harness.clock.pass(3_000);
    const stopped = harness.runtime.containers.filter((container) => container.stopped);
    assert.deepEqual(
      stopped.map(({ spec }) => spec.runId),
      ['run-2'],
    );
    harness.service.onCall = () => undefined;
    await harness.clock.pass(15_000);
    harness.service.calls.length = 0;
    await harness.clock.pass(30_000);
    assert.deepEqual(harness.service.callsOf('getRun'), []);
  });

  it('pauses for a tick after an early answer, as a service that stops or is at its quota gives', async () => {
    const harness = makeHarness();
    const [run] = await runMany(harness, 1);
    harness.service.endsWaits = true;
    await harness.clock.pass(5_000);
    harness.service.calls.length = 0;
    await harness.clock.pass(60_000);
    const beats = harness.service.callsOf('heartbeat').length;
    assert.ok(beats >= 29 && beats <= 31, `${beats} heartbeats in a minute`);
    assert.equal(run?.state, 'RUNNING');
  });
});

describe('a worker whose service is older', () => {
  it('polls each run once a tick, and sends a heartbeat as often', async () => {
    const harness = makeHarness(MANY);
    harness.service.tellsLostRuns = false;
    const runs = await runMany(harness, 3);
    harness.service.calls.length = 0;
    await harness.clock.pass(60_000);
    const [beats, polls] = [harness.service.callsOf('heartbeat'), harness.service.callsOf('getRun')];
    assert.ok(beats.length >= 29 && beats.length <= 31, `${beats.length} heartbeats`);
    assert.ok(beats.every(({ waitSeconds }) => waitSeconds === 0));
    assert.ok(polls.length >= 87 && polls.length <= 93, `${polls.length} polls`);
    for (const run of runs) run.state = 'CANCELLED';
    await harness.clock.pass(2_000);
    assert.ok(harness.runtime.containers.every((container) => container.stopped));
  });

  it('sends it heartbeats of the members that it knows, says so once, and tells all again after an update', async () => {
    const harness = makeHarness({ capabilities: ['env', 'cpu_millis'] });
    const { service, log } = harness;
    service.tellsLostRuns = false;
    service.onCall = (call) =>
      call.what === 'heartbeat' &&
      (isWhole(call) || call.report?.runningOps.some(({ attempt }) => attempt !== null))
        ? { kind: 'refused', status: 400, detail: 'capabilities is not a known field' }
        : undefined;
    const constraints = { ...NO_CONSTRAINTS, cpuMillis: 1500, cpuLimitMillis: 2500 };
    await harness.execute('RUNNING', { constraints });
    const refused = service.callsOf('heartbeat').filter(isWhole).length;
    assert.equal(refused, 1);
    const warned = log.filter((line) => line.includes('capabilities is not a known field'));
    assert.equal(warned.length, 1);
    await harness.clock.pass(60_000);
    const { report } = service.callsOf('heartbeat').at(-1) ?? {};
    const [listed] = report?.runningOps ?? [];
    assert.deepEqual(listed?.constraints, { ...NO_CONSTRAINTS, cpuMillis: 2000, cpuLimitMillis: 2000 });
    assert.equal(listed?.attempt, null);
    assert.equal(service.callsOf('heartbeat').filter(isWhole).length, 1);
    service.tellsLostRuns = true;
    service.onCall = () => undefined;
    await harness.clock.pass(10_000);
    assert.ok(service.callsOf('heartbeat').slice(-1).every(isWhole));
  });

  it('ends with the reason when it refuses what interface.md has, too', async () => {
    const harness = makeHarness();
    const refusal = { kind: 'refused', status: 400, detail: 'tags.0 must be shorter' } as const;
    harness.service.onCall = ({ what }) => (what === 'heartbeat' ? refusal : undefined);
    await harness.start();
    await harness.clock.until('the worker ends', () => harness.exitCode() !== null, 50);
    assert.equal(harness.exitCode(), 1);
    assert.equal(harness.service.callsOf('heartbeat').length, 2);
    assert.ok(harness.log.some((line) => line.includes('refuses the heartbeats of this worker')));
  });

  it('polls as soon as an update is taken back, and no more after the next one', async () => {
    const harness = makeHarness();
    const [run] = await runMany(harness, 1);
    harness.service.tellsLostRuns = false;
    await harness.clock.pass(15_000);
    harness.service.calls.length = 0;
    await harness.clock.pass(10_000);
    assert.ok(harness.service.callsOf('getRun').length >= 4);
    harness.service.tellsLostRuns = true;
    await harness.clock.pass(5_000);
    harness.service.calls.length = 0;
    await harness.clock.pass(30_000);
    assert.deepEqual(harness.service.callsOf('getRun'), []);
    assert.equal(run?.state, 'RUNNING');
  });
});

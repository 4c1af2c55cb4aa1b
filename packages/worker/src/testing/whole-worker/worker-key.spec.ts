import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, onTestFinished } from 'vitest';
import { eventTypes, type Call, type Fault } from '../fake-service.js';
import { makeHarness, startedRun, type WorkerHarness } from '../worker-harness.js';

const refused = (status: number, detail = 'Invalid API key'): Fault => ({ kind: 'refused', status, detail });

function untilEnded(harness: WorkerHarness): Promise<void> {
  return harness.clock.until('the worker ends', () => harness.exitCode() !== null, 100);
}

const loggedAt = ({ log }: WorkerHarness, text: string) => log.filter((line) => line.includes(text)).length;

const CALLS = [
  'heartbeat',
  'claim',
  'getRun',
  'postEvent',
  'putLogChunk',
] as const satisfies readonly Call['what'][];

describe('a worker', () => {
  for (const status of [401, 403]) {
    for (const what of CALLS) {
      it(`goes on after one ${status} to ${what}, and repeats the request`, async () => {
        const harness = makeHarness();
        const { service, clock } = harness;
        service.tellsLostRuns = what !== 'getRun';
        let faults = 1;
        const refusedCalls: Call[] = [];
        service.onCall = (call) => {
          if (call.what !== what || faults === 0) return undefined;
          faults -= 1;
          refusedCalls.push(call);
          return refused(status);
        };
        const run = service.add('run-1');
        await harness.start();
        const container = await harness.container();
        container.print('{"type":"NOTE","msg":1}');
        await clock.pass(5_000);
        container.end(0);
        await harness.untilState(run, 'COMPLETED');
        assert.deepEqual(eventTypes(run), ['STARTED', 'NOTE', 'COMPLETED']);
        await clock.pass(120_000);
        assert.equal(harness.exitCode(), null);
        assert.equal(harness.runtime.containers.length, 1);
        const [first] = refusedCalls;
        const same = service.callsOf(what).filter(({ key }) => key === first?.key);
        assert.ok(same.length > 1, 'the request is repeated, under its key if it has one');
        assert.deepEqual(service.logs.texts('run-1'), ['{"type":"NOTE","msg":1}', '<end>']);
        assert.equal(await harness.end(), 0);
      });
    }
  }

  it('goes on for hours with one of several servers that refuses its key', async () => {
    const { harness, run, container, service, clock } = await startedRun();
    let turn = 0;
    service.onCall = () => (turn++ % 3 === 0 ? undefined : refused(401));
    await clock.pass(2 * 3_600_000);
    assert.equal(harness.exitCode(), null);
    assert.equal(container.stopped, false);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    service.onCall = () => undefined;
    assert.equal(await harness.end(), 0);
  });

  it('goes on while GET /whoami gets no answer of the service', async () => {
    const { harness, run, container, service, clock } = await startedRun();
    service.onCall = ({ what }) =>
      what === 'whoami' ? { kind: 'unreachable', reason: 'HTTP 403 of a proxy' } : refused(403);
    await clock.pass(600_000);
    assert.equal(harness.exitCode(), null);
    container.end(0);
    service.onCall = () => undefined;
    await harness.untilState(run, 'COMPLETED');
    assert.equal(await harness.end(), 0);
  });

  for (const status of [401, 403]) {
    it(`whose key is refused with ${status} for the worker timeout drains, says so and exits with 3`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'longshore-key-spec-'));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const healthFile = join(folder, 'health');
      const env = { SERVICE_WORKER_HEALTH_FILE: healthFile, SERVICE_WORKER_DRAIN: '100' };
      const { harness, container, service, clock } = await startedRun({ env });
      service.onCall = () => refused(status);
      await clock.pass(55_000);
      assert.equal(loggedAt(harness, "the service refuses this worker's key"), 0);
      assert.equal(container.stopped, false);
      await clock.pass(40_000);
      assert.equal(loggedAt(harness, "the service refuses this worker's key"), 1);
      assert.ok(service.callsOf('whoami').length >= 5);
      await clock.until(
        'the health file says it',
        () => existsSync(healthFile) && readFileSync(healthFile, 'utf8').includes('key'),
      );
      assert.match(readFileSync(healthFile, 'utf8'), /^\S+Z\nkey_refused: Invalid API key$/);
      const healthyUntil = () => Date.parse(readFileSync(healthFile, 'utf8').split('\n')[0] ?? '');
      await clock.until('unhealthy', () => healthyUntil() <= clock.epochMs());
      assert.equal(container.stopped, false, 'its runs go on for the drain time');
      assert.equal(harness.exitCode(), null);
      const claims = service.callsOf('claim').length;
      await clock.pass(30_000);
      assert.equal(service.callsOf('claim').length, claims);
      await untilEnded(harness);
      assert.equal(harness.exitCode(), 3);
      assert.ok(container.stopped && container.removed);
      assert.equal(loggedAt(harness, 'its end cannot be reported'), 1);
      assert.ok(existsSync(healthFile));
    });
  }

  it('reports the end of a run while it drains if the service accepts the key again', async () => {
    const { harness, run, container, service, clock } = await startedRun({
      env: { SERVICE_WORKER_DRAIN: '300' },
    });
    service.onCall = () => refused(401);
    await clock.until('the refusal is confirmed', () => loggedAt(harness, 'check SERVICE_URL') > 0, 100);
    container.end(0);
    await clock.pass(10_000);
    service.onCall = () => undefined;
    await harness.untilState(run, 'COMPLETED');
    await untilEnded(harness);
    assert.equal(harness.exitCode(), 3);
  });

  it('with a wrong key at its start ends after some seconds, not at the first answer', async () => {
    const harness = makeHarness();
    harness.service.onCall = () => refused(401);
    await harness.start();
    await harness.clock.pass(4_000);
    assert.equal(harness.exitCode(), null);
    await harness.clock.pass(10_000);
    assert.equal(harness.exitCode(), 3);
    assert.ok(harness.service.callsOf('whoami').length >= 5);
  });

  it('whose key lost its scope, or is bound to other workers, ends though GET /whoami answers 200', async () => {
    for (const key of [
      { scopes: ['client'], workerIds: null },
      { scopes: ['worker'], workerIds: ['rack/8*', 'rack/7:ab'] },
    ]) {
      const { harness, service } = await startedRun();
      service.key = key;
      service.onCall = ({ what }) => (what === 'whoami' ? undefined : refused(403, 'no'));
      await untilEnded(harness);
      assert.equal(harness.exitCode(), 3);
    }
  });

  it('ends at its start when its heartbeats stay forbidden although its key is accepted', async () => {
    const detail = "API key is not bound to tag 'prod-vault'";
    const harness = makeHarness();
    harness.service.onCall = ({ what }) => (what === 'whoami' ? undefined : refused(403, detail));
    await harness.start();
    await untilEnded(harness);
    assert.equal(harness.exitCode(), 1);
    assert.ok(harness.log.some((line) => line.includes('refuses the heartbeats') && line.includes(detail)));
  });

  it('drops one event that stays forbidden while its key is accepted, and reports the next ones', async () => {
    const { harness, run, container, service } = await startedRun();
    service.onCall = ({ event }) => (event?.type === 'ODD' ? refused(403, 'not allowed') : undefined);
    container.print('{"type":"ODD","msg":1}');
    container.print('{"type":"NOTE","msg":2}');
    await harness.clock.pass(30_000);
    assert.deepEqual(eventTypes(run), ['STARTED']);
    await harness.clock.until('the next event', () => eventTypes(run).includes('NOTE'), 1_000);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
    assert.equal(await harness.end(), 0);
  });

  it('advises an id when its key is bound to others and it was started without one', async () => {
    const bound = "API key is not bound to worker 'rack/7:a'";
    const cases: readonly (readonly [NodeJS.ProcessEnv, string, boolean])[] = [
      [{}, bound, true],
      [{ SERVICE_WORKER_ID: 'rack:7:a' }, bound, false],
      [{}, "API key lacks scope 'worker'", false],
    ];
    for (const [env, detail, isAdvised] of cases) {
      const harness = makeHarness({ env });
      harness.service.onCall = () => refused(403, detail);
      await harness.start();
      await untilEnded(harness);
      const line = harness.log.find((each) => each.includes("refuses this worker's key")) ?? '';
      assert.ok(line.includes(detail.slice(0, 20)));
      assert.equal(line.includes('or start it with `--id` and one that the key is bound to'), isAdvised);
    }
  });

  it('names the runs of a claim whose answer is still arriving, for five attempts', async () => {
    const harness = makeHarness();
    const { service, clock } = harness;
    let isCut = true;
    service.onCall = ({ what }) => (what === 'claim' && isCut ? 'lose-answer' : undefined);
    service.add('run-1');
    await harness.start();
    const isNamed = () =>
      service
        .callsOf('heartbeat')
        .at(-1)
        ?.report?.runningOps.some(({ id }) => id === 'run-1') ?? false;
    await clock.until('a heartbeat names the run', isNamed, 100);
    await clock.until('five attempts', () => service.callsOf('claim').length >= 6, 1_000);
    await clock.until('no heartbeat names it any more', () => !isNamed(), 1_000);
    isCut = false;
    const container = await harness.container();
    await clock.until('the run is named again', isNamed, 100);
    container.end(0);
    assert.equal(await harness.end(), 0);
  });
});

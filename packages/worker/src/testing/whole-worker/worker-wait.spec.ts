import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { DOWN } from '../fake-service.js';
import { makeHarness, type WorkerHarness } from '../worker-harness.js';

/** A harness whose worker waits for work. */
async function makeWaitingScene(env: NodeJS.ProcessEnv = {}): Promise<WorkerHarness> {
  const harness = makeHarness({ env });
  harness.runtime.onStart = (container) => container.end(0);
  await harness.start();
  await harness.clock.until('a claim waits', () => harness.service.waiting === 1, 10);
  return harness;
}

describe('a worker that waits for work', () => {
  it('gets a new run at once, and claims again at once', async () => {
    const harness = await makeWaitingScene();
    await harness.clock.pass(7000);
    const before = harness.clock.nowMs();
    const run = harness.service.add('run-1');
    await harness.clock.until('the run is taken', () => run.state !== 'PENDING');
    await harness.clock.until('the next claim waits', () => harness.service.waiting === 1);
    assert.equal(harness.clock.nowMs(), before);
    await harness.untilState(run, 'COMPLETED');
  });

  it('claims once in 20 s while the queue is empty, with heartbeats on time', async () => {
    const harness = await makeWaitingScene();
    harness.service.calls.length = 0;
    await harness.clock.pass(600_000);
    const claims = harness.service.callsOf('claim');
    assert.ok(claims.length >= 29 && claims.length <= 31, `${claims.length} claims in 10 minutes`);
    assert.equal(new Set(claims.map(({ key }) => key)).size, claims.length, 'each answer ends its key');
    assert.ok(claims.every(({ waitSeconds }) => waitSeconds === 20));
    const beats = harness.service.callsOf('heartbeat').length;
    assert.ok(beats >= 59 && beats <= 61, `${beats} heartbeats in 10 minutes`);
  });

  it("waits at most a third of the service's worker timeout", async () => {
    const harness = makeHarness();
    harness.service.workerTimeoutSeconds = 9;
    await harness.start();
    await harness.clock.pass(10_000);
    assert.equal(harness.service.callsOf('claim').at(-1)?.waitSeconds, 3);
  });

  it('limits the rate of claims when the service answers waiting claims early', async () => {
    const harness = await makeWaitingScene();
    harness.service.endsWaits = true;
    harness.service.wakeClaims();
    harness.service.calls.length = 0;
    await harness.clock.pass(60_000);
    const count = harness.service.callsOf('claim').length;
    assert.ok(count >= 28 && count <= 31, `${count} claims in 60 s at a tick of 2 s`);
  });

  it('executes a run once that the service returns again, and limits the rate of claims', async () => {
    const harness = makeHarness();
    const { id, image, inputs, constraints, attempt, container } = harness.service.add('run-1', {
      state: 'ASSIGNED',
      workerId: 'rack/7:a',
    });
    let claims = 0;
    harness.service.claim = async () => {
      claims += 1;
      return { kind: 'ok', value: [{ id, image, inputs, constraints, attempt, container, trace: null }] };
    };
    await harness.start();
    await harness.clock.pass(60_000);
    assert.ok(claims >= 28 && claims <= 32, `${claims} claims in 60 s at a tick of 2 s`);
    assert.equal(harness.runtime.containers.length, 1);
  });

  it('keeps the key of a failed waiting claim until an answer arrives', async () => {
    const harness = await makeWaitingScene();
    const first = harness.service.callsOf('claim').at(-1)?.key;
    harness.service.onCall = ({ what }) => (what === 'claim' ? DOWN : undefined);
    harness.service.endsWaits = true;
    harness.service.wakeClaims();
    await harness.clock.pass(30_000);
    harness.service.endsWaits = false;
    const broken = harness.service.callsOf('claim').at(-1)?.key;
    assert.notEqual(broken, first);
    harness.service.onCall = ({ what }) => (what === 'claim' ? 'lose-answer' : undefined);
    const run = harness.service.add('run-1');
    await harness.clock.until('handed out unheard', () => run.state === 'ASSIGNED', 100);
    assert.equal(harness.service.callsOf('claim').at(-1)?.key, broken);
    harness.service.onCall = () => undefined;
    await harness.untilState(run, 'COMPLETED');
  });
});

describe('a worker whose service comes back after an outage', () => {
  it('claims only after the service has accepted a heartbeat again', async () => {
    const harness = await makeWaitingScene();
    harness.service.onCall = ({ what }) => (what === 'heartbeat' ? DOWN : undefined);
    await harness.clock.pass(5000);
    harness.service.onCall = () => DOWN;
    harness.service.endsWaits = true;
    harness.service.wakeClaims();
    await harness.clock.pass(3000);
    harness.service.endsWaits = false;
    harness.service.calls.length = 0;
    harness.service.onCall = ({ what }) => (what === 'heartbeat' ? DOWN : undefined);
    await harness.clock.pass(30_000);
    assert.equal(harness.service.callsOf('claim').length, 0);
    harness.service.onCall = () => undefined;
    await harness.clock.until('a claim waits', () => harness.service.waiting === 1, 10);
  });
});

describe('a worker at a service without waiting claims', () => {
  it('claims without waiting, once per tick, after one refusal', async () => {
    const harness = makeHarness();
    harness.service.supportsWait = false;
    await harness.start();
    await harness.clock.pass(60_000);
    const claims = harness.service.callsOf('claim');
    assert.equal(claims.filter(({ waitSeconds }) => waitSeconds !== 0).length, 1);
    assert.ok(claims.length >= 29 && claims.length <= 32, `${claims.length} claims in 60 s`);
    const run = harness.service.add('run-1');
    harness.runtime.onStart = (container) => container.end(0);
    await harness.untilState(run, 'COMPLETED');
  });

  it('tries a waiting claim again after an outage', async () => {
    const harness = makeHarness();
    harness.service.supportsWait = false;
    await harness.start();
    await harness.clock.pass(10_000);
    harness.service.onCall = () => DOWN;
    await harness.clock.pass(10_000);
    harness.service.supportsWait = true;
    harness.service.onCall = () => undefined;
    await harness.clock.until('a claim waits', () => harness.service.waiting === 1, 100);
  });

  it('backs off when the claim is refused for another reason', async () => {
    const harness = makeHarness();
    harness.service.onCall = ({ what }) =>
      what === 'claim' ? { kind: 'refused', status: 400, detail: 'No.' } : undefined;
    await harness.start();
    await harness.clock.pass(600_000);
    const count = harness.service.callsOf('claim').length;
    assert.ok(count >= 60 && count <= 120, `${count} claims in 10 minutes`);
  });
});

describe('a waiting worker that is shut down', () => {
  it('aborts its claim at once, sends no other, and exits with 0', async () => {
    const harness = await makeWaitingScene();
    await harness.clock.pass(5000);
    const asked = harness.service.callsOf('claim').length;
    const before = harness.clock.nowMs();
    harness.worker.shutDown();
    await harness.clock.until('the worker ends', () => harness.exitCode() === 0);
    assert.equal(harness.clock.nowMs(), before);
    assert.equal(harness.service.waiting, 0);
    assert.equal(harness.service.callsOf('claim').length, asked);
    const run = harness.service.add('run-1');
    await harness.clock.pass(60_000);
    assert.equal(run.state, 'PENDING');
  });

  it('waits a second for the answer to a new claim, and executes its runs', async () => {
    const harness = await makeWaitingScene();
    await harness.clock.pass(400);
    harness.worker.shutDown();
    await harness.clock.pass(300);
    assert.equal(harness.exitCode(), null);
    const run = harness.service.add('run-1');
    await harness.untilState(run, 'COMPLETED');
    await harness.clock.until('the worker ends', () => harness.exitCode() === 0, 20);
  });
});

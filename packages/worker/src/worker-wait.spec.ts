import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DOWN } from './testing/fake-service.js';
import { makeScene, type Scene } from './testing/scene.js';

/** A scene whose worker waits for work. */
async function makeWaitingScene(env: NodeJS.ProcessEnv = {}): Promise<Scene> {
  const scene = makeScene({ env });
  scene.runtime.onStart = (container) => container.end(0);
  await scene.start();
  await scene.clock.until('a claim waits', () => scene.service.waiting === 1, 10);
  return scene;
}

describe('a worker that waits for work', () => {
  it('gets a new run without time passing, and asks again at once after it', async () => {
    const scene = await makeWaitingScene();
    await scene.clock.pass(7000);
    const before = scene.clock.nowMs();
    const run = scene.service.add('run-1');
    await scene.clock.until('the run is taken', () => run.state !== 'PENDING');
    await scene.clock.until('the next claim waits', () => scene.service.waiting === 1);
    assert.equal(scene.clock.nowMs(), before);
    await scene.reaches(run, 'COMPLETED');
    await scene.end();
  });

  it('asks once in 20 s while nothing happens, and heartbeats on', async () => {
    const scene = await makeWaitingScene();
    scene.service.calls.length = 0;
    await scene.clock.pass(600_000);
    const claims = scene.service.callsOf('claim');
    assert.ok(claims.length >= 29 && claims.length <= 31, `${claims.length} claims in 10 minutes`);
    assert.equal(new Set(claims.map(({ key }) => key)).size, claims.length, 'each answer ends its key');
    assert.ok(claims.every(({ waitSeconds }) => waitSeconds === 20));
    const beats = scene.service.callsOf('heartbeat').length;
    assert.ok(beats >= 299, `${beats} heartbeats in 10 minutes`);
    await scene.end();
  });

  it('waits no longer than a third of the timeout that the service names', async () => {
    const scene = makeScene();
    scene.service.workerTimeoutSeconds = 9;
    await scene.start();
    await scene.clock.pass(10_000);
    assert.equal(scene.service.callsOf('claim').at(-1)?.waitSeconds, 3);
    await scene.end();
  });

  it('does not storm a service that answers waiting claims early with nothing', async () => {
    const scene = await makeWaitingScene();
    scene.service.endsWaits = true;
    scene.service.announce();
    scene.service.calls.length = 0;
    await scene.clock.pass(60_000);
    const count = scene.service.callsOf('claim').length;
    assert.ok(count >= 28 && count <= 31, `${count} claims in 60 s at a tick of 2 s`);
    await scene.end();
  });

  it('does not storm a service that hands out again what it is executing', async () => {
    const scene = makeScene();
    const { id, image, inputs, constraints, attempt } = scene.service.add('run-1', {
      state: 'ASSIGNED',
      workerId: 'rack/7:a',
    });
    let claims = 0;
    scene.service.claim = async () => {
      claims += 1;
      return { kind: 'ok', value: [{ id, image, inputs, constraints, attempt, trace: null }] };
    };
    await scene.start();
    await scene.clock.pass(60_000);
    assert.ok(claims >= 28 && claims <= 32, `${claims} claims in 60 s at a tick of 2 s`);
    scene.runtime.containers[0]?.end(0);
    await scene.end();
  });

  it('keeps the key of a wait that broke until an answer arrives', async () => {
    const scene = await makeWaitingScene();
    const first = scene.service.callsOf('claim').at(-1)?.key;
    scene.service.onCall = ({ what }) => (what === 'claim' ? DOWN : undefined);
    scene.service.endsWaits = true;
    scene.service.announce();
    await scene.clock.pass(30_000);
    scene.service.endsWaits = false;
    const broken = scene.service.callsOf('claim').at(-1)?.key;
    assert.notEqual(broken, first);
    scene.service.onCall = ({ what }) => (what === 'claim' ? 'lose-answer' : undefined);
    const run = scene.service.add('run-1');
    await scene.clock.until('handed out unheard', () => run.state === 'ASSIGNED', 100);
    assert.equal(scene.service.callsOf('claim').at(-1)?.key, broken);
    scene.service.onCall = () => undefined;
    await scene.reaches(run, 'COMPLETED');
    await scene.end();
  });
});

describe('a worker whose service comes back after an outage', () => {
  it('claims once the service has taken its heartbeat again, not before', async () => {
    const scene = await makeWaitingScene();
    scene.service.onCall = ({ what }) => (what === 'heartbeat' ? DOWN : undefined);
    await scene.clock.pass(5000);
    scene.service.onCall = () => DOWN;
    scene.service.endsWaits = true;
    scene.service.announce();
    await scene.clock.pass(3000);
    scene.service.endsWaits = false;
    scene.service.calls.length = 0;
    scene.service.onCall = ({ what }) => (what === 'heartbeat' ? DOWN : undefined);
    await scene.clock.pass(30_000);
    assert.equal(scene.service.callsOf('claim').length, 0);
    scene.service.onCall = () => undefined;
    await scene.clock.until('a claim waits', () => scene.service.waiting === 1, 10);
    await scene.end();
  });
});

describe('a worker at a service that knows no waiting claims', () => {
  it('asks without waiting, once a tick, after one refusal', async () => {
    const scene = makeScene();
    scene.service.knowsWait = false;
    await scene.start();
    await scene.clock.pass(60_000);
    const claims = scene.service.callsOf('claim');
    assert.equal(claims.filter(({ waitSeconds }) => waitSeconds !== 0).length, 1);
    assert.ok(claims.length >= 29 && claims.length <= 32, `${claims.length} claims in 60 s`);
    const run = scene.service.add('run-1');
    scene.runtime.onStart = (container) => container.end(0);
    await scene.reaches(run, 'COMPLETED');
    await scene.end();
  });

  it('tries to wait again after an outage, when a newer service may have come up', async () => {
    const scene = makeScene();
    scene.service.knowsWait = false;
    await scene.start();
    await scene.clock.pass(10_000);
    scene.service.onCall = () => DOWN;
    await scene.clock.pass(10_000);
    scene.service.knowsWait = true;
    scene.service.onCall = () => undefined;
    await scene.clock.until('a claim waits', () => scene.service.waiting === 1, 100);
    await scene.end();
  });

  it('backs off when the claim is refused for another reason', async () => {
    const scene = makeScene();
    scene.service.onCall = ({ what }) =>
      what === 'claim' ? { kind: 'refused', status: 400, detail: 'No.' } : undefined;
    await scene.start();
    await scene.clock.pass(600_000);
    const count = scene.service.callsOf('claim').length;
    assert.ok(count >= 60 && count <= 120, `${count} claims in 10 minutes`);
    await scene.end();
  });
});

describe('a waiting worker that is shut down', () => {
  it('breaks its claim off at once, asks no more and ends with 0', async () => {
    const scene = await makeWaitingScene();
    await scene.clock.pass(5000);
    const asked = scene.service.callsOf('claim').length;
    const before = scene.clock.nowMs();
    scene.worker.shutDown();
    await scene.clock.until('the worker ends', () => scene.exitCode() === 0);
    assert.equal(scene.clock.nowMs(), before);
    assert.equal(scene.service.waiting, 0);
    assert.equal(scene.service.callsOf('claim').length, asked);
    const run = scene.service.add('run-1');
    await scene.clock.pass(60_000);
    assert.equal(run.state, 'PENDING');
  });

  it('gives a claim that has just been sent a second for its answer, and executes what that brings', async () => {
    const scene = await makeWaitingScene();
    await scene.clock.pass(400);
    scene.worker.shutDown();
    await scene.clock.pass(300);
    assert.equal(scene.exitCode(), null);
    const run = scene.service.add('run-1');
    await scene.reaches(run, 'COMPLETED');
    await scene.clock.until('the worker ends', () => scene.exitCode() === 0, 20);
  });
});

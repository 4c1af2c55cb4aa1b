import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { eventTypes } from '@longshore/worker/testing/fake-service';
import { Death, LauncherHarness, type Cut } from '../testing/launcher-harness.js';
import type { JobStatus } from './engine.js';

const RUNNING: JobStatus = { kind: 'running' };
const exited = (exitCode: number): JobStatus => ({ kind: 'exited', exitCode, outOfMemory: false });

/** How a run ends: by the end of its job, or by a cancel while the job runs. */
const ENDS: Readonly<Record<string, { readonly job: JobStatus; readonly state: string }>> = {
  'that succeeds': { job: exited(0), state: 'COMPLETED' },
  'that fails': { job: exited(7), state: 'FAILED' },
  'whose node is lost': {
    job: { kind: 'failed', cause: 'infrastructure', message: 'lost' },
    state: 'FAILED',
  },
  'that is cancelled': { job: RUNNING, state: 'CANCELLED' },
};

describe('a launcher that is killed', () => {
  for (const [which, end] of Object.entries(ENDS)) {
    for (const cut of ['before', 'after'] as const) {
      it(`${cut} any of its requests is followed by one that executes a run ${which} once and leaves nothing`, async () => {
        for (let at = 1; await isKilled(at, cut, end); at += 1);
      });
    }
  }
});

/** Kills the launcher of a run at its n-th request, and starts another one. @returns whether there was such a request */
async function isKilled(at: number, cut: Cut, { job, state }: (typeof ENDS)[string]): Promise<boolean> {
  const scene = new LauncherHarness();
  const run = scene.service.add('run-1');
  const death = new Death(at, cut);
  scene.launch({ death });
  const goOn = async (isEnough: () => boolean): Promise<void> => {
    for (let step = 0; step < 4 && !isEnough(); step += 1) {
      await scene.clock.pass(2000);
      if (!isEnough()) await finishJobs(scene, job);
      if (state === 'CANCELLED' && run.state === 'RUNNING') run.state = 'CANCELLED';
    }
  };
  await goOn(() => death.isDead);
  // Time for the removal of the job.
  await scene.clock.pass(60_000);
  if (death.isDead) {
    scene.launch();
    await scene.clock.pass(3000);
    if (['ASSIGNED', 'RUNNING'].includes(run.state) && scene.listed().length === 0) reclaim(scene, run);
    await goOn(() => run.state === state);
    await scene.clock.pass(120_000);
  }
  const what = `killed ${cut} request ${at}: ${eventTypes(run).join(' ')}`;
  assert.equal(run.state, state, what);
  const started = attemptsOf(run, 'STARTED');
  assert.equal(new Set(started).size, started.length, what);
  assert.ok(attemptsOf(run, 'PROGRESS').length <= started.length, what);
  // Only the end of a job that is removed before its report may be lost with the launcher.
  if (job.kind === 'exited') assert.equal(scene.cluster.submitted.length, 1, what);
  assert.ok(attemptsOf(run, 'COMPLETED').length <= 1, what);
  assert.deepEqual([...scene.cluster.jobs.keys()], [], what);
  return death.isDead;
}

/** What the service does after the worker timeout with a run that no heartbeat lists. */
function reclaim({ service }: LauncherHarness, run: FakeRun): void {
  run.timeline.push({ type: 'RECLAIMED', msg: '', attempt: run.attempt });
  run.state = 'PENDING';
  run.attempt += 1;
  run.workerId = null;
  service.wakeClaims();
}

/** Lets every pending job run and print, and then end. */
async function finishJobs({ clock, cluster }: LauncherHarness, end: JobStatus): Promise<void> {
  const each = (from: JobStatus['kind'], to: JobStatus): void => {
    for (const job of cluster.jobs.values()) if (job.status.kind === from) job.status = to;
    cluster.changed();
  };
  for (const { lines } of cluster.jobs.values())
    if (lines.length === 0) lines.push('{"type":"PROGRESS","msg":50}', 'plain');
  each('pending', RUNNING);
  await clock.pass(1000);
  each('running', end);
  await clock.pass(5000);
}

/** The attempts of the run's events of a type. */
function attemptsOf({ timeline }: FakeRun, type: string): number[] {
  return timeline.filter((event) => event.type === type).map(({ attempt }) => attempt);
}

describe('a launcher', () => {
  it('leaves the job of a newer attempt alone when its own is lost before it submits', async () => {
    const scene = new LauncherHarness();
    const run = scene.service.add('run-1');
    scene.service.onCall = ({ what }) => {
      if (what !== 'getRun') return undefined;
      // The first answer still shows the first attempt.
      if (scene.service.callsOf('getRun').length > 1) {
        Object.assign(run, { attempt: 2, state: 'RUNNING', workerId: 'other' });
      } else scene.addJob('run-1', RUNNING, { workerId: 'other', attempt: 2 });
      return undefined;
    };
    scene.launch();
    await scene.clock.pass(60_000);
    assert.equal(run.attempt, 2);
    assert.deepEqual([scene.cluster.removals, [...scene.cluster.jobs.keys()]], [[], ['run-1/2']]);
  });

  it('adopts the job of the current attempt and removes that of an earlier one, in whatever order it finds them', async () => {
    for (const attempts of [
      [1, 2],
      [2, 1],
    ]) {
      const scene = new LauncherHarness();
      scene.service.add('run-1', { state: 'RUNNING', workerId: 'launcher-1', attempt: 2 });
      for (const attempt of attempts) scene.addJob('run-1', RUNNING, { attempt });
      scene.launch();
      await scene.clock.pass(130_000);
      assert.deepEqual(scene.cluster.removals, ['run-1/1']);
    }
  });

  it('adopts a thousand jobs well before the worker timeout, though each answer takes its time', async () => {
    const scene = new LauncherHarness();
    const jobs = 1000;
    for (let i = 0; i < jobs; i += 1) {
      const runId = `run-${i}`;
      scene.service.add(runId, { state: 'RUNNING', workerId: 'launcher-1' });
      scene.addJob(runId, RUNNING);
    }
    const getRun = scene.service.getRun.bind(scene.service);
    scene.service.getRun = async (runId) => {
      await scene.clock.sleep(100);
      return getRun(runId);
    };
    scene.launch();
    await scene.clock.pass(10_000);
    assert.equal(scene.service.callsOf('heartbeat')[0]?.report?.runningOps.length, jobs);
  });

  it('starts although the service gives no answer for one of its jobs', async () => {
    const scene = new LauncherHarness();
    for (const runId of ['run-1', 'run-2']) {
      scene.service.add(runId, { state: 'RUNNING', workerId: 'launcher-1' });
      scene.addJob(runId, RUNNING);
    }
    const getRun = scene.service.getRun.bind(scene.service);
    scene.service.getRun = async (runId) =>
      runId === 'run-1' ? { kind: 'unreachable', reason: '500' } : getRun(runId);
    scene.launch();
    await scene.clock.pass(5_000);
    assert.deepEqual(scene.listed(), ['run-2']);
    scene.service.getRun = getRun;
    await scene.clock.pass(20_000);
    assert.deepEqual(scene.listed(), ['run-2', 'run-1']);
  });

  it('reads the rest of the log of a job that was ended while there was no launcher', async () => {
    const scene = new LauncherHarness();
    const run = scene.service.add('run-1', { state: 'RUNNING', workerId: 'launcher-1' });
    scene.addJob('run-1', { kind: 'failed', cause: 'error', message: 'at its time limit' });
    scene.cluster.print('run-1', '{"type":"PROGRESS","msg":70}');
    scene.launch();
    await scene.clock.pass(30_000);
    assert.deepEqual(eventTypes(run), ['PROGRESS', 'FAILED']);
    assert.deepEqual(scene.cluster.removals, ['run-1/1']);
  });

  it('leaves the running job of another launcher alone', async () => {
    const scene = new LauncherHarness();
    scene.service.add('run-1', { state: 'RUNNING', workerId: 'other' });
    scene.addJob('run-1', RUNNING, { workerId: 'other' });
    scene.launch();
    await scene.clock.pass(300_000);
    assert.deepEqual(scene.cluster.removals, []);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventTypes, type FakeRun } from '../testing/fake-service.js';
import { Death, LauncherScene, type Cut } from '../testing/launcher-scene.js';
import type { JobStatus } from './engine.js';

/** How a run ends: by the end of its job, or by a cancel while the job runs. */
const ENDS: Readonly<Record<string, { readonly job: JobStatus; readonly state: string }>> = {
  'that succeeds': { job: { kind: 'exited', exitCode: 0, outOfMemory: false }, state: 'COMPLETED' },
  'that fails': { job: { kind: 'exited', exitCode: 7, outOfMemory: false }, state: 'FAILED' },
  'whose node is lost': {
    job: { kind: 'failed', cause: 'infrastructure', message: 'lost' },
    state: 'FAILED',
  },
  'that is cancelled': { job: { kind: 'running' }, state: 'CANCELLED' },
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
  const scene = new LauncherScene();
  scene.cluster.lines = ['{"type":"PROGRESS","msg":50}', 'plain'];
  const run = scene.service.add('run-1');
  const death = new Death(at, cut);
  scene.start('k8s-1', death);
  const goOn = async (isEnough: () => boolean): Promise<void> => {
    for (let step = 0; step < 4 && !isEnough(); step += 1) {
      await scene.clock.pass(2000);
      if (!isEnough()) await scene.finishJobs(job);
      if (state === 'CANCELLED' && run.state === 'RUNNING') run.state = 'CANCELLED';
    }
  };
  await goOn(() => death.isDead);
  // Time for the removal of the job.
  await scene.clock.pass(60_000);
  if (death.isDead) {
    scene.start();
    await scene.clock.pass(3000);
    if (['ASSIGNED', 'RUNNING'].includes(run.state) && !scene.isListed(run)) scene.reclaim(run);
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
  assert.deepEqual(scene.cluster.table.list(), [], what);
  return death.isDead;
}

/** The attempts of the run's events of a type. */
function attemptsOf({ timeline }: FakeRun, type: string): number[] {
  return timeline.filter((event) => event.type === type).map(({ attempt }) => attempt);
}

describe('a launcher', () => {
  it('at SIGTERM leaves its jobs, reports nothing about them and exits with 0; the next one adopts them', async () => {
    const scene = new LauncherScene();
    const run = scene.service.add('run-1');
    const worker = scene.start();
    await scene.untilSubmitted();
    scene.cluster.set({ runId: 'run-1', attempt: 1 }, { kind: 'running' });
    await scene.untilState(run, 'RUNNING');
    const before = eventTypes(run);
    worker.shutDown();
    await scene.clock.until('the launcher ends', () => scene.ended.length > 0, 20);
    assert.deepEqual([scene.ended, eventTypes(run), scene.cluster.removed], [[0], before, []]);
    scene.start();
    await scene.clock.pass(3000);
    await scene.finishJobs();
    assert.deepEqual(eventTypes(run), [...before, 'COMPLETED']);
    assert.equal(scene.cluster.submitted.length, 1);
    assert.deepEqual(scene.cluster.table.list(), []);
  });

  it('may run in two processes at once: each report is on the timeline once, and nothing is left', async () => {
    const scene = new LauncherScene();
    const runs = ['run-1', 'run-2', 'run-3'].map((id) => scene.service.add(id));
    scene.cluster.lines = ['{"type":"PROGRESS","msg":50}', 'plain'];
    scene.start();
    await scene.untilSubmitted(3);
    scene.start();
    await scene.clock.pass(130_000);
    for (let step = 0; step < 3; step += 1) await scene.finishJobs();
    for (const run of runs) {
      const events = eventTypes(run).filter((type) => type !== 'SUBMITTED');
      assert.deepEqual(events, ['STARTED', 'PROGRESS', 'COMPLETED']);
      assert.equal(attemptsOf(run, 'SUBMITTED').length, 1);
    }
    assert.equal(scene.cluster.submitted.length, 3);
    assert.deepEqual(scene.cluster.table.list(), []);
  });

  it('ends the job of an attempt that was reclaimed from another launcher before it submits the next', async () => {
    const scene = new LauncherScene();
    const run = scene.service.add('run-1');
    const gone = new Death();
    scene.start('gone', gone);
    await scene.untilSubmitted();
    scene.cluster.set({ runId: 'run-1', attempt: 1 }, { kind: 'running' });
    await scene.untilState(run, 'RUNNING');
    gone.kill();
    scene.reclaim(run);
    scene.start('other');
    await scene.untilSubmitted(2);
    assert.deepEqual(scene.cluster.removed, ['run-1/1']);
    assert.deepEqual(
      scene.cluster.table.list().map(({ attempt, workerId }) => [attempt, workerId]),
      [[2, 'other']],
    );
  });

  it('leaves the job of a newer attempt alone when its own is lost before it submits', async () => {
    const scene = new LauncherScene();
    const run = scene.service.add('run-1');
    scene.service.onCall = ({ what }) => {
      if (what !== 'getRun') return undefined;
      const newer = { runId: 'run-1', attempt: 2, engineId: 'newer', workerId: 'other' };
      // The first answer still shows the first attempt.
      if (scene.service.callsOf('getRun').length > 1) {
        Object.assign(run, { attempt: 2, state: 'RUNNING', workerId: 'other' });
      } else scene.cluster.table.put({ ...newer, status: { kind: 'running' } });
      return undefined;
    };
    scene.start();
    await scene.clock.pass(60_000);
    assert.equal(run.attempt, 2);
    assert.ok(!scene.cluster.removed.includes('run-1/2'));
    assert.deepEqual(
      scene.cluster.table.list().map(({ engineId }) => engineId),
      ['newer'],
    );
  });

  it('removes a job whose run ended while no launcher was there, also one of another launcher', async () => {
    const scene = new LauncherScene();
    for (const [id, workerId] of [
      ['run-1', 'k8s-1'],
      ['run-2', 'gone'],
    ] as const) {
      scene.service.add(id, { state: 'CANCELLED', workerId });
      const status = { kind: 'running' } as const;
      scene.cluster.table.put({ runId: id, attempt: 1, engineId: `uid-${id}`, workerId, status });
    }
    scene.start();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removed.toSorted(), ['run-1/1', 'run-2/1']);
  });

  it('removes an ended job whose run the service has deleted, and lets one that runs go on', async () => {
    const scene = new LauncherScene();
    for (const [runId, status] of [
      ['run-1', { kind: 'exited', exitCode: 0, outOfMemory: false }],
      ['run-2', { kind: 'running' }],
    ] as const) {
      scene.cluster.table.put({ runId, attempt: 1, engineId: `uid-${runId}`, workerId: 'k8s-1', status });
    }
    scene.start();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removed, ['run-1/1']);
  });

  it('adopts the job of the current attempt and removes that of an earlier one, in whatever order it finds them', async () => {
    for (const attempts of [
      [1, 2],
      [2, 1],
    ]) {
      const scene = new LauncherScene();
      scene.service.add('run-1', { state: 'RUNNING', workerId: 'k8s-1', attempt: 2 });
      for (const attempt of attempts) {
        const status = { kind: 'running' } as const;
        const engineId = `uid-${attempt}`;
        scene.cluster.table.put({ runId: 'run-1', attempt, engineId, workerId: 'k8s-1', status });
      }
      scene.start();
      await scene.clock.pass(130_000);
      assert.deepEqual(scene.cluster.removed, ['run-1/1']);
    }
  });

  it('adopts a thousand jobs well before the worker timeout, though each answer takes its time', async () => {
    const scene = new LauncherScene();
    const jobs = 1000;
    for (let i = 0; i < jobs; i += 1) {
      const runId = `run-${i}`;
      scene.service.add(runId, { state: 'RUNNING', workerId: 'k8s-1' });
      const status = { kind: 'running' } as const;
      scene.cluster.table.put({ runId, attempt: 1, engineId: `uid-${i}`, workerId: 'k8s-1', status });
    }
    const getRun = scene.service.getRun.bind(scene.service);
    scene.service.getRun = async (runId) => {
      await scene.clock.sleep(100);
      return getRun(runId);
    };
    scene.start();
    await scene.clock.pass(10_000);
    const [first] = scene.service.callsOf('heartbeat');
    assert.equal(first?.report?.runningOps.length, jobs);
  });

  it('leaves the running job of another launcher alone', async () => {
    const scene = new LauncherScene();
    scene.service.add('run-1', { state: 'RUNNING', workerId: 'other' });
    const status = { kind: 'running' } as const;
    scene.cluster.table.put({ runId: 'run-1', attempt: 1, engineId: 'uid', workerId: 'other', status });
    scene.start();
    await scene.clock.pass(300_000);
    assert.deepEqual(scene.cluster.removed, []);
  });
});

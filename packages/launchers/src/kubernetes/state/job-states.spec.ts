import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import type { Job, Pod } from '../api/resources.js';
import { JobStates } from './job-states.js';

const KEY = { runId: 'r1', attempt: 1 };
const LABELS = { 'longshore.run': 'r1', 'longshore.attempt': '1' };

function job(more: Job['metadata'] = {}, worker = 'w1'): Job {
  const annotations = { 'longshore.worker': worker, ...more.annotations };
  return { metadata: { name: 'run-r1-1', uid: 'job-1', labels: LABELS, ...more, annotations } };
}

function pod(uid: string, state: object = {}, more: Pod['metadata'] = {}): Pod {
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: 'run-r1-1', uid: 'job-1' };
  const container = { name: 'run', image: 'img', imageID: '', ready: false, restartCount: 0, state };
  const inputs = {
    ...container,
    name: 'inputs',
    state: { terminated: { exitCode: 0, finishedAt: '2025-12-31T23:59:00Z' } },
  };
  return {
    metadata: { uid, name: uid, labels: LABELS, ownerReferences: [owner], ...more },
    status: { phase: 'Pending', initContainerStatuses: [inputs, container] },
  };
}

/** A pod whose container `inputs` waits, too. */
function waitingInputs(uid: string, reason: string, message: string): Pod {
  const { metadata = {}, status } = pod(uid);
  const [inputs, run] = status?.initContainerStatuses ?? [];
  assert.ok(inputs !== undefined && run !== undefined);
  return {
    metadata,
    status: {
      phase: 'Pending',
      initContainerStatuses: [{ ...inputs, image: 'helper', state: { waiting: { reason, message } } }, run],
    },
  };
}

const RUNNING = { running: {} };
const waiting = (reason: string, message: string) => ({ waiting: { reason, message } });

describe('the states of jobs', () => {
  let clock: FakeClock;
  let actions: string[];
  let states: JobStates;

  beforeEach(() => {
    clock = new FakeClock();
    actions = [];
    states = open();
  });

  function open(workerId = 'w1'): JobStates {
    return new JobStates(
      { workerId, clock, pullGraceMs: 300_000 },
      {
        listPods: ({ engineId }) => actions.push(`list pods of ${engineId}`),
        recordPod: (name, uid) => actions.push(`record ${uid} of ${name}`),
        endLost: ({ engineId }) => actions.push(`end ${engineId}`),
      },
    );
  }

  const kind = () => states.table.find(KEY)?.status.kind;
  const status = () => states.table.find(KEY)?.status;

  it('are those of listed jobs, with their pods', () => {
    states.podListener.onList([pod('p1', RUNNING)], 0);
    states.jobListener.onList([job()], 0);
    assert.deepEqual(states.table.list(), [
      { ...KEY, workerId: 'w1', engineId: 'job-1', status: { kind: 'running' } },
    ]);
    states.jobListener.onDelete(job());
    assert.deepEqual(states.table.list(), []);
  });

  it('keep a job that was submitted after the start of a list without it', () => {
    states.submitted(job());
    states.jobListener.onList([], -1);
    assert.equal(kind(), 'pending');
    states.jobListener.onList([], 1);
    assert.equal(kind(), undefined);
  });

  it('record the first pod of an own job in the cluster', () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(pod('p1', RUNNING));
    states.podListener.onChange(pod('p1', RUNNING));
    assert.deepEqual(actions, ['record p1 of run-r1-1']);
    actions = [];
    states = open('other');
    states.jobListener.onChange(job());
    states.podListener.onChange(pod('p1', RUNNING));
    assert.deepEqual(actions, []);
  });

  it('end a job whose pod somebody deletes, and keep its status', () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(pod('p1', RUNNING));
    states.podListener.onChange(pod('p1', RUNNING, { deletionTimestamp: '2026-01-01T00:00:30Z' }));
    assert.equal(kind(), 'failed');
    assert.equal(actions.at(-1), 'end job-1');
    const before = status();
    states.podListener.onChange(pod('p2', RUNNING));
    states.podListener.onDelete(pod('p1'));
    assert.deepEqual(status(), before);
  });

  it('keep the end of a job whose job and pod are deleted later', () => {
    states.jobListener.onChange(job());
    const last = pod('p1', { terminated: { exitCode: 7 } });
    const ended = { ...last, status: { ...last.status, phase: 'Failed' } };
    states.podListener.onChange(ended);
    assert.equal(kind(), 'exited');
    states.jobListener.onChange(job({ deletionTimestamp: '2026-01-01T00:00:30Z' }));
    states.podListener.onDelete(ended);
    assert.deepEqual(status(), { kind: 'exited', exitCode: 7, outOfMemory: false });
  });

  it('do not take a pod for lost before they have listed the pods', () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(pod('p1', RUNNING));
    states.podListener.onList([], 0);
    assert.equal(kind(), 'running');
    assert.equal(actions.at(-1), 'list pods of job-1');
    states.setPods('run-r1-1', [pod('p1', RUNNING)]);
    assert.equal(kind(), 'running');
    states.podListener.onDelete(pod('p1'));
    assert.equal(kind(), 'running');
    states.setPods('run-r1-1', []);
    assert.equal(kind(), 'failed');
  });

  it('know a replacement after a restart by the pod that the job names', () => {
    states.podListener.onList([pod('p2', RUNNING)], 0);
    states.jobListener.onList([job({ annotations: { 'longshore.pod': 'p1' } })], 0);
    states.setPods('run-r1-1', [pod('p2', RUNNING)]);
    const now = status();
    assert.match(now?.kind === 'failed' ? now.message : '', /another one in its place/);
    assert.equal(
      states.podOf({ ...KEY, workerId: 'w1', engineId: 'job-1', status: { kind: 'running' } }),
      null,
    );
  });

  it('ignore pods of an earlier job of the same name', () => {
    states.podListener.onList([pod('p1', RUNNING)], 0);
    states.jobListener.onList([job({ uid: 'job-2' })], 0);
    assert.equal(kind(), 'pending');
  });

  it('count the time of a failing pull from its first failure, and keep the message that says why', async () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(pod('p1', waiting('PodInitializing', '')));
    states.podListener.onChange(pod('p1', waiting('ErrImagePull', 'no such host')));
    states.podListener.onChange(pod('p1', waiting('ImagePullBackOff', 'Back-off pulling image')));
    await clock.pass(299_999);
    states.tick();
    const reason = "The image 'img' cannot be pulled: ErrImagePull: no such host";
    assert.deepEqual(status(), { kind: 'pending', reason });
    await clock.pass(1);
    states.tick();
    assert.deepEqual(status(), { kind: 'failed', cause: 'image', message: reason });
  });

  it('count the time of a failing pull for each container on its own', async () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(waitingInputs('p1', 'ErrImagePull', 'busy'));
    await clock.pass(360_000);
    states.podListener.onChange(pod('p1', waiting('ErrImagePull', 'no such host')));
    const reason = "The image 'img' cannot be pulled: ErrImagePull: no such host";
    assert.deepEqual(status(), { kind: 'pending', reason });
    await clock.pass(299_999);
    states.tick();
    assert.equal(kind(), 'pending');
    await clock.pass(1);
    states.tick();
    assert.deepEqual(status(), { kind: 'failed', cause: 'image', message: reason });
  });

  it('forget the problem of a container that runs or has ended', async () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(waitingInputs('p1', 'CreateContainerError', 'busy'));
    states.podListener.onChange(pod('p1', { waiting: { reason: 'PodInitializing' } }));
    await clock.pass(100_000);
    states.podListener.onChange(waitingInputs('p1', 'CreateContainerError', 'busy'));
    assert.equal(kind(), 'pending');
  });

  it('count the time of a failing pull from its first failure although it says something else in between', async () => {
    states.jobListener.onChange(job());
    states.podListener.onChange(pod('p1', waiting('ErrImagePull', 'no such host')));
    states.podListener.onChange(pod('p1', waiting('ContainerCreating', '')));
    await clock.pass(300_000);
    states.podListener.onChange(pod('p1', waiting('ImagePullBackOff', 'Back-off')));
    assert.equal(kind(), 'failed');
  });

  it('count the time of a pull that failed before a restart from the time of the engine', async () => {
    states.podListener.onList([pod('p1', waiting('ImagePullBackOff', 'Back-off'))], 0);
    states.jobListener.onList([job()], 0);
    await clock.pass(239_999);
    states.tick();
    assert.equal(kind(), 'pending');
    await clock.pass(1);
    states.tick();
    assert.equal(kind(), 'failed');
  });

  it('end a job whose node has said nothing of its pod for ten minutes of this process', async () => {
    const silent: Pod = {
      ...pod('p1'),
      status: { phase: 'Pending', conditions: [{ type: 'PodScheduled', status: 'True' }] },
    };
    states.podListener.onList([silent], 0);
    states.jobListener.onList([job()], 0);
    await clock.pass(599_000);
    states.tick();
    assert.equal(kind(), 'pending');
    await clock.pass(1_000);
    states.tick();
    assert.deepEqual(status(), {
      kind: 'failed',
      cause: 'infrastructure',
      message: 'Kubernetes ended the run: Its node has said nothing of its pod for 10 minutes',
    });
    assert.deepEqual(actions, ['record p1 of run-r1-1', 'end job-1']);
  });

  it('name jobs that wait for a pod, with the reason', () => {
    states.jobListener.onChange(job());
    assert.deepEqual(states.withoutPod(), ['run-r1-1']);
    states.setCreationProblem('run-r1-1', 'exceeded quota');
    assert.deepEqual(status(), { kind: 'pending', reason: 'exceeded quota' });
    states.podListener.onChange(pod('p1', RUNNING));
    assert.deepEqual(states.withoutPod(), []);
  });

  it('name jobs whose pod waits for the volumes of its run, and end those whose volume cannot be mounted', () => {
    const volumes = [{ name: 'longshore-mount-0-results', persistentVolumeClaim: { claimName: 'team' } }];
    const mounting = (one: Pod): Pod => ({ ...one, spec: { containers: [], volumes } });
    const waits = waitingInputs('p1', 'PodInitializing', '');
    states.jobListener.onChange(job());
    states.podListener.onChange(waits);
    assert.deepEqual([...states.withoutVolumes()], []);
    states.podListener.onChange(mounting(waits));
    assert.deepEqual([...states.withoutVolumes()], [['p1', 'run-r1-1']]);
    states.podListener.onChange(mounting(pod('p1', waiting('PodInitializing', ''))));
    assert.deepEqual([...states.withoutVolumes()], []);
    states.podListener.onChange(mounting(waits));
    states.setUnmounted('run-r1-1', 'results');
    assert.equal(kind(), 'failed');
    assert.deepEqual(actions, ['record p1 of run-r1-1', 'end job-1']);
  });

  it('name pods whose job is gone', () => {
    states.podListener.onChange(pod('p1', RUNNING));
    assert.deepEqual(
      states.orphans().map(({ metadata }) => metadata?.uid),
      ['p1'],
    );
    states.jobListener.onChange(job());
    assert.deepEqual(states.orphans(), []);
  });
});

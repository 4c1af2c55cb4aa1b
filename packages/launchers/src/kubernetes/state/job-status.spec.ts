import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import {
  INIT,
  NOW,
  before,
  done,
  exited,
  failed,
  lost,
  of,
  pod,
  view,
  waiting,
  JOB,
} from '../../testing/job-views.js';
import { statusOf, timesOf } from './job-status.js';

describe('the status of a job that waits', () => {
  it('has the reason of the scheduler', () => {
    const conditions = [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/1 nodes are available' },
    ];
    assert.deepEqual(of({ ...pod([]), status: { phase: 'Pending', conditions } }), {
      kind: 'pending',
      reason: 'Unschedulable: 0/1 nodes are available',
    });
  });

  it('has the reason of the container that is next', () => {
    assert.deepEqual(of(pod([waiting('PodInitializing'), INIT, INIT])), {
      kind: 'pending',
      reason: 'PodInitializing',
    });
    const scheduled = [{ type: 'PodScheduled', status: 'True' }];
    assert.deepEqual(of(pod([done(), waiting('X', 'y'), INIT], { status: { conditions: scheduled } })), {
      kind: 'pending',
      reason: 'X: y',
      isPlaced: true,
    });
  });

  it('has the reason why the cluster creates no pod', () => {
    assert.deepEqual(statusOf(view({})), { kind: 'pending', reason: '' });
    assert.deepEqual(statusOf(view({ creationProblem: 'exceeded quota: q' })), {
      kind: 'pending',
      reason: 'exceeded quota: q',
    });
    const conditions = [{ type: 'Suspended', status: 'True', message: 'Job suspended' }];
    assert.deepEqual(statusOf(view({ job: { ...JOB, status: { conditions } } })), {
      kind: 'pending',
      reason: 'Suspended: Job suspended',
    });
  });
});

describe('the status of a job whose container runs', () => {
  it('is running until the outputs are printed', () => {
    const states = [
      [done(), { running: {} }, INIT],
      [done(), done(), INIT],
      [done(), done(), { running: {} }],
    ];
    for (const each of states) assert.deepEqual(of(pod(each)), { kind: 'running' });
  });
});

describe('the status of a job whose container has ended', () => {
  it('has the exit code', () => {
    assert.deepEqual(of(pod([done(), done(), done()], { status: { phase: 'Succeeded' } })), exited(0));
    assert.deepEqual(of(pod([done(), done(7), INIT], { status: failed })), exited(7));
  });

  it('tells of the memory limit', () => {
    assert.deepEqual(
      of(pod([done(), done(137, { reason: 'OOMKilled' }), INIT], { status: failed })),
      exited(137, true),
    );
  });

  it('fails by the memory limit when the container ended with 0 after a part of it was killed', () => {
    const killed = done(0, { reason: 'OOMKilled' });
    for (const outputs of [INIT, { running: {} }, done()])
      assert.deepEqual(of(pod([done(), killed, outputs])), exited(137, true));
  });

  it('is open until the pod is over: the reason of an eviction or a shutdown may come after the exit code', () => {
    for (const exitCode of [143, 137, 7]) {
      const states = [done(), done(exitCode), INIT];
      assert.deepEqual(of(pod(states)), { kind: 'running' });
      const status = { ...failed, reason: 'Terminated', message: 'node shutdown' };
      assert.deepEqual(of(pod(states, { status })), lost('Terminated: node shutdown'));
      const conditions = [{ type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet' }];
      const disrupted = { ...failed, conditions };
      assert.deepEqual(of(pod(states, { status: disrupted })), lost('TerminationByKubelet'));
      assert.deepEqual(of(pod(states, { status: failed })), exited(exitCode));
    }
  });

  it('is an error when the program could not be started', () => {
    for (const reason of ['StartError', 'ContainerCannotRun']) {
      assert.deepEqual(
        of(pod([done(), done(127, { reason, message: 'no such file' }), INIT], { status: failed })),
        {
          kind: 'failed',
          cause: 'error',
          message: 'The container could not be started: no such file',
        },
      );
    }
  });

  it('is not judged again when somebody deletes the pod later', () => {
    const deleted = { deletionTimestamp: before(-29), deletionGracePeriodSeconds: 30 };
    assert.deepEqual(of(pod([done(), done(7), INIT], { status: failed, metadata: deleted })), exited(7));
    const states = [done(), done(), done()];
    assert.deepEqual(of(pod(states, { status: { phase: 'Succeeded' }, metadata: deleted })), exited(0));
  });
});

describe('the status of a job that the cluster ended', () => {
  it('is infrastructure for every reason of the pod', () => {
    for (const reason of [
      'Evicted',
      'Preempting',
      'Shutdown',
      'DeadlineExceeded',
      'OutOfcpu',
      'UnexpectedAdmissionError',
    ]) {
      const status = { ...failed, reason, message: 'why' };
      assert.deepEqual(of(pod([done(), done(137), INIT], { status })), lost(`${reason}: why`));
      assert.deepEqual(of({ ...pod([]), status }), lost(`${reason}: why`));
    }
    assert.deepEqual(
      of(pod([done(), { running: {} }, INIT], { status: { reason: 'NodeLost' } })),
      lost('NodeLost'),
    );
  });

  it('is infrastructure after a disruption, whatever the exit code', () => {
    const conditions = [
      { type: 'DisruptionTarget', status: 'True', reason: 'PreemptionByScheduler', message: 'm' },
    ];
    const states = [done(), done(), done()];
    assert.deepEqual(
      of(pod(states, { status: { phase: 'Succeeded', conditions } })),
      lost('PreemptionByScheduler: m'),
    );
  });

  it('is infrastructure when the node does not know how the container ended', () => {
    const ends = [
      [137, 'ContainerStatusUnknown'],
      [255, 'Unknown'],
    ] as const;
    for (const [exitCode, reason] of ends) {
      const unknown = done(exitCode, { reason, message: 'gone' });
      assert.deepEqual(of(pod([done(), unknown, INIT], { status: failed })), lost(`${reason}: gone`));
    }
    assert.deepEqual(
      of(pod([done(), done(255, { reason: 'Error' }), INIT], { status: failed })),
      exited(255),
    );
  });

  it('is infrastructure when somebody deletes the pod, also when the program then ends with 0', () => {
    const deleted = { deletionTimestamp: before(-20), deletionGracePeriodSeconds: 30 };
    const states = [
      [done(), { running: {} }, INIT],
      [done(), done(), INIT],
      [done(), done(143), INIT],
      [INIT, INIT, INIT],
    ];
    for (const each of states)
      assert.deepEqual(of(pod(each, { metadata: deleted })), lost('Its pod was deleted'));
  });

  it('is infrastructure when somebody deletes the job', () => {
    const job = { metadata: { ...JOB.metadata, deletionTimestamp: before(1) } };
    assert.deepEqual(
      of(pod([done(), { running: {} }, INIT]), { job }),
      lost('Its Kubernetes job was deleted'),
    );
    assert.deepEqual(statusOf(view({ job })), lost('Its Kubernetes job was deleted'));
  });

  it('is infrastructure when a container of the launcher fails', () => {
    assert.deepEqual(
      of(pod([done(1, { reason: 'Error' }), INIT, INIT], { status: failed })),
      lost("The container 'inputs' of the launcher ended with exit code 1 (Error)"),
    );
    assert.deepEqual(
      of(pod([done(), done(), done(2)], { status: failed })),
      lost("The container 'outputs' of the launcher ended with exit code 2 ()"),
    );
  });
});

describe('the status of a job whose pod was replaced', () => {
  const first = pod([done(), { running: {} }, INIT], { metadata: { creationTimestamp: before(90) } });
  const second = pod([done(), done(), done()], {
    status: { phase: 'Succeeded' },
    metadata: { uid: 'pod-2' },
  });
  const replaced = lost('Its pod was deleted and Kubernetes started another one in its place');

  it('is infrastructure, and never the result of the second pod', () => {
    assert.deepEqual(statusOf(view({ pods: [second, first], arePodsComplete: true })), replaced);
    assert.deepEqual(of(second, { firstPod: 'pod-1', arePodsComplete: true }), replaced);
    const job = { metadata: { ...JOB.metadata, annotations: { 'longshore.pod': 'pod-1' } } };
    assert.deepEqual(of(second, { job, arePodsComplete: true }), replaced);
  });

  it('is known only after the pods were listed', () => {
    assert.deepEqual(of(second, { firstPod: 'pod-1' }), { kind: 'pods-unknown' });
  });
});

describe('the status of a job whose pod is gone', () => {
  const complete = { ...JOB, status: { conditions: [{ type: 'Complete', status: 'True' }] } };

  it('is infrastructure once the pods were listed', () => {
    for (const more of [{ firstPod: 'pod-1' }, { job: complete }]) {
      assert.deepEqual(statusOf(view(more)), { kind: 'pods-unknown' });
      assert.deepEqual(statusOf(view({ ...more, arePodsComplete: true })), lost('Its pod is gone'));
    }
    const conditions = [{ type: 'Failed', status: 'True', reason: 'R', message: 'it failed' }];
    const job = { ...JOB, status: { conditions } };
    assert.deepEqual(statusOf(view({ job, arePodsComplete: true })), lost('Its pod is gone: it failed'));
  });
});

describe('the status of a job that cannot start', () => {
  it('is an error when an admission policy refuses its pod, and pending when a quota does', () => {
    const message = 'Error creating: admission webhook "w" denied the request: no';
    assert.deepEqual(statusOf(view({ creationProblem: message })), {
      kind: 'failed',
      cause: 'error',
      message,
    });
    const quota = 'Error creating: pods "p" is forbidden: exceeded quota: q';
    assert.deepEqual(statusOf(view({ creationProblem: quota })), { kind: 'pending', reason: quota });
  });

  const states = [done(), waiting('ErrImagePull', 'not found'), INIT];
  const message = "The image 'img:1' cannot be pulled: ErrImagePull: not found";

  it('is pending for the time that a pull may fail, then failed with the cause image', () => {
    const since = (seconds: number) => ({
      problem: { container: 'run', sinceMs: NOW - seconds * 1000, message },
    });
    assert.deepEqual(of(pod(states), since(299)), { kind: 'pending', reason: message });
    assert.deepEqual(of(pod(states), since(300)), { kind: 'failed', cause: 'image', message });
  });

  it('fails at once when no repetition can help', () => {
    for (const reason of ['InvalidImageName', 'ErrImageNeverPull']) {
      const status = of(pod([done(), waiting(reason, 'm'), INIT]));
      assert.deepEqual(status, {
        kind: 'failed',
        cause: 'image',
        message: `The image 'img:1' cannot be pulled: ${reason}: m`,
      });
    }
  });

  it('is an error when the container cannot be created for a minute', () => {
    const blocked = pod([done(), waiting('CreateContainerConfigError', 'secret "s" not found'), INIT]);
    const said = 'The container cannot be created: CreateContainerConfigError: secret "s" not found';
    assert.deepEqual(of(blocked), { kind: 'pending', reason: said });
    const problem = { container: 'run', sinceMs: NOW - 60_000, message: said };
    assert.deepEqual(of(blocked, { problem }), { kind: 'failed', cause: 'error', message: said });
  });

  it('is infrastructure when it is a container of the launcher', () => {
    const helper = pod([waiting('ErrImageNeverPull', 'm'), INIT, INIT]);
    const status = of(helper);
    assert.equal(status.kind === 'failed' && status.cause, 'infrastructure');
  });
});

describe('the times of an attempt', () => {
  const startedAt = before(50);
  const finishedAt = before(10);

  it('are those of its container, and not of its helpers', () => {
    const runs = pod([done(), { running: { startedAt } }, INIT]);
    assert.deepEqual(timesOf([runs]), { startedAt, finishedAt: null });
    const ended = pod([done(), done(0, { startedAt, finishedAt }), done()]);
    assert.deepEqual(timesOf([ended]), { startedAt, finishedAt });
  });

  it('are not known before the container has started, and without a pod', () => {
    assert.equal(timesOf([pod([{ running: { startedAt } }, INIT, INIT])]), null);
    assert.equal(timesOf([]), null);
  });
});

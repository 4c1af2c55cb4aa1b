import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { INIT, NOW, done, lost, of, pod, waiting, failed } from '../../testing/job-views.js';
import { waitProblemOf } from './job-status.js';

/** A pod that was evicted because of a volume. */
const full = (volume: string) => ({
  ...failed,
  reason: 'Evicted',
  message: `Usage of EmptyDir volume "${volume}" exceeds the limit "64Mi". `,
});

describe('the status of a job whose volumes cannot be had or are full', () => {
  const volumes = [{ name: 'longshore-mount-0-results', persistentVolumeClaim: { claimName: 'team' } }];

  it('is infrastructure when a claim does not exist for a minute, and names the volume', () => {
    const message = '0/1 nodes are available: persistentvolumeclaim "team" not found.';
    const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }];
    const waits = { ...pod([]), spec: { containers: [], volumes }, status: { phase: 'Pending', conditions } };
    const problem = { container: 'inputs', message: 'last' };
    assert.equal(of(waits, { problem: { ...problem, sinceMs: NOW - 1000 } }).kind, 'pending');
    assert.deepEqual(of(waits, { problem: { ...problem, sinceMs: NOW - 3_600_000 } }), {
      kind: 'failed',
      cause: 'infrastructure',
      message: 'last',
    });
    assert.equal(
      waitProblemOf(waits)?.message,
      "The volume 'results' is missing: Kubernetes does not have its claim",
    );
  });

  it('is infrastructure when the node cannot mount a volume, which it names, and not once a container has started', () => {
    const unmounted = 'results';
    assert.deepEqual(of(pod([INIT, INIT, INIT]), { unmounted }), {
      kind: 'failed',
      cause: 'infrastructure',
      message: "The volume 'results' cannot be mounted on the node of the pod",
    });
    assert.equal(of(pod([done(), { running: {} }, INIT]), { unmounted }).kind, 'running');
  });

  it("is the run's error when the node cannot use its folder within a volume", () => {
    for (const what of ['prepare subPath', 'create subPath directory']) {
      const why = `failed to ${what} for volumeMount "longshore-mount-0-results" of container "inputs"`;
      const problem = waitProblemOf(pod([waiting('CreateContainerConfigError', why), INIT, INIT]));
      assert.deepEqual(
        [problem?.cause, problem?.message],
        [
          'error',
          "A part of the sub_path of the volume 'results' is a link or no folder, or cannot be created",
        ],
      );
    }
    assert.equal(
      waitProblemOf(pod([waiting('CreateContainerConfigError', 'other'), INIT]))?.cause,
      'infrastructure',
    );
  });

  it("is the run's error when its empty folder became too large", () => {
    const message = 'Usage of EmptyDir volume "longshore-scratch-2" exceeds the limit "500Mi". ';
    const ended = {
      kind: 'failed',
      cause: 'error',
      message: 'An empty folder of the run became larger than its scratch_mb',
    };
    const states = [done(), done(137), INIT];
    assert.deepEqual(of(pod(states, { status: { ...failed, reason: 'Evicted', message } })), ended);
    const conditions = [
      { type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet', message },
    ];
    assert.deepEqual(of(pod(states, { status: { ...failed, conditions } })), ended);
    const other = message.replace('longshore-scratch-2', 'cache');
    assert.deepEqual(
      of(pod(states, { status: { ...failed, reason: 'Evicted', message: other } })),
      lost(`Evicted: ${other}`),
    );
  });

  it('is oom for a pod whose /dev/shm was full, unlike other volumes', () => {
    const statusOfFull = (volume: string) => of(pod([done(), done(137), INIT], { status: full(volume) }));
    const message = `Kubernetes ended the run because its /dev/shm was full: Evicted: ${full('longshore-shm').message}`;
    assert.deepEqual(statusOfFull('longshore-shm'), { kind: 'failed', cause: 'oom', message });
    assert.deepEqual(statusOfFull('data'), lost(`Evicted: ${full('data').message}`));
  });
});

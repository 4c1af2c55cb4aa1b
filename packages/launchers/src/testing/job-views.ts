import type { ContainerStatus, Job, Pod } from '../kubernetes/api/resources.js';
import { statusOf, type JobView } from '../kubernetes/state/job-status.js';

export const NOW = Date.parse('2026-11-23T22:00:00Z');
export const before = (seconds: number) => new Date(NOW - seconds * 1000).toISOString();

export type State = ContainerStatus['state'];
type PodStatus = NonNullable<Pod['status']>;

export const container = (name: string, state: State): ContainerStatus => ({
  name,
  image: 'img:1',
  imageID: '',
  ready: false,
  restartCount: 0,
  state,
});
export const done = (exitCode = 0, more: object = {}): State => ({
  terminated: { exitCode, finishedAt: before(5), ...more },
});
export const waiting = (reason: string, message?: string): State => ({
  waiting: message === undefined ? { reason } : { reason, message },
});
export const INIT = waiting('PodInitializing');

/** A pod whose three containers are in the states. */
export function pod(
  [inputs, run, outputs]: readonly State[],
  { status = {}, metadata = {} }: { status?: Partial<PodStatus>; metadata?: Pod['metadata'] } = {},
): Pod {
  return {
    metadata: { uid: 'pod-1', creationTimestamp: before(60), ...metadata },
    status: {
      phase: 'Pending',
      initContainerStatuses: [container('inputs', inputs), container('run', run)],
      containerStatuses: [container('outputs', outputs)],
      ...status,
    },
  };
}

export const JOB: Job = { metadata: { uid: 'job-1', name: 'run-1' } };

export function view(more: Partial<JobView>): JobView {
  return {
    job: JOB,
    pods: [],
    firstPod: null,
    arePodsComplete: false,
    problem: null,
    nowMs: NOW,
    pullGraceMs: 300_000,
    creationProblem: '',
    unmounted: null,
    silence: null,
    ...more,
  };
}

export const of = (only: Pod, more: Partial<JobView> = {}) => statusOf(view({ pods: [only], ...more }));
export const lost = (why: string) => ({
  kind: 'failed',
  cause: 'infrastructure',
  message: `Kubernetes ended the run: ${why}`,
});
export const failed = { phase: 'Failed' };
export const exited = (exitCode: number, outOfMemory = false) => ({ kind: 'exited', exitCode, outOfMemory });

import { engineTime, type ContainerTimes } from '@longshore/worker/runtime/runtime';
import type { JobStatus } from '../../launcher/engine.js';
import { isDenial } from '../api/kubernetes-api.js';
import { timeOf, type ContainerStatus, type Job, type Pod } from '../api/resources.js';
import { isOverScratch, missingVolume, unusableFolder } from '../manifest/mounts.js';
import { RUN_FAULT_EXIT } from '@longshore/worker/transfer/messages';
import {
  FILES_CONTAINER,
  INPUTS_CONTAINER,
  OUTPUTS_CONTAINER,
  POD_ANNOTATION,
  RUN_CONTAINER,
  SHM_VOLUME,
} from '../manifest/names.js';

/** What was seen of a container that cannot start. */
export interface KnownProblem {
  /** Its name. */
  readonly container: string;
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** The newest message that says why. */
  readonly message: string;
}

/** A Job as the engine lists it, with its pods. */
export interface JobView {
  readonly job: Job;
  readonly pods: readonly Pod[];
  /** UID of the pod that was the first to be seen; null: none was seen. */
  readonly firstPod: string | null;
  /** Whether `pods` is newer than `job`. */
  readonly arePodsComplete: boolean;
  /** Null: none was seen. */
  readonly problem: KnownProblem | null;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** How long an image may be unavailable, in milliseconds. */
  readonly pullGraceMs: number;
  /** Why the cluster creates no pod; empty: not known. */
  readonly creationProblem: string;
  /** The volume that the node of the pod could not mount; null: none. */
  readonly unmounted: string | null;
  /** Why the pod counts as lost although nothing says so; null: it does not. */
  readonly silence: string | null;
}

/** `pods-unknown`: the pods have to be listed to tell. */
type Verdict = JobStatus | { readonly kind: 'pods-unknown' };

/** A Secret that was just created may not have reached the node, and a container runtime may be busy. */
const CREATE_GRACE_MS = 60_000;

/** Reasons of a container that did not start at all. */
const NOT_STARTED: readonly string[] = ['StartError', 'ContainerCannotRun'];

/** Reasons of a container whose end the node does not know; the second one is containerd's, after a reset of the node. */
const END_UNKNOWN: readonly string[] = ['ContainerStatusUnknown', 'Unknown'];

/** What a node says of a pod that it evicted because its /dev/shm outgrew its size. */
const SHM_FULL = `Usage of EmptyDir volume "${SHM_VOLUME}" exceeds the limit`;

/** Exit code of a container that was killed. */
const KILLED = 137;

/** The status of an attempt by what the API server says about its Job and its pods. */
export function statusOf(view: JobView): Verdict {
  const { job, pods, firstPod, arePodsComplete } = view;
  const [pod, ...others] = pods.toSorted((a, b) => createdAt(a) - createdAt(b));
  if (pod === undefined) return statusWithoutPod(view);
  const known = job.metadata?.annotations?.[POD_ANNOTATION] ?? firstPod;
  const isReplaced = others.length > 0 || (known !== null && known !== pod.metadata?.uid);
  if (isReplaced) {
    return arePodsComplete
      ? lost('Its pod was deleted and Kubernetes started another one in its place')
      : { kind: 'pods-unknown' };
  }
  const ended = endOf(pod);
  if (ended !== null) return ended;
  if (job.metadata?.deletionTimestamp !== undefined) return lost('Its Kubernetes job was deleted');
  if (pod.metadata?.deletionTimestamp !== undefined) return lost('Its pod was deleted');
  if (pod.status?.reason === 'NodeLost') return lost(podReason(pod));
  const run = containerOf(pod, RUN_CONTAINER);
  const problem = waitProblemOf(pod);
  const message = view.problem?.message ?? problem?.message ?? waitReason(pod);
  if (problem !== null && hasLasted(problem, view)) return { kind: 'failed', cause: problem.cause, message };
  if (view.unmounted !== null && !hasStarted(pod, INPUTS_CONTAINER)) {
    const why = `The volume '${view.unmounted}' cannot be mounted on the node of the pod`;
    return { kind: 'failed', cause: 'infrastructure', message: why };
  }
  if (view.silence !== null) {
    const exitCode = run?.state?.terminated?.exitCode ?? 0;
    return exitCode === 0 ? lost(view.silence) : { kind: 'exited', exitCode, outOfMemory: false };
  }
  if (run?.state?.running !== undefined) return { kind: 'running' };
  if (run?.state?.terminated !== undefined)
    return { kind: 'running', ...(isStoring(pod) && { hasEnded: true }) };
  const reason = problem === null ? waitReason(pod) : message;
  return { kind: 'pending', reason, ...(isPlaced(pod) && { isPlaced: true }) };
}

function hasLasted({ grace }: WaitProblem, { nowMs, problem, pullGraceMs }: JobView): boolean {
  const graceMs = { none: 0, create: CREATE_GRACE_MS, pull: pullGraceMs }[grace];
  return nowMs - (problem?.sinceMs ?? nowMs) >= graceMs;
}

/** Whether the container that stores the files of the run goes on. It is beside that of the run, and ends when it is told. */
function isStoring(pod: Pod): boolean {
  return storesFiles(pod) && containerOf(pod, OUTPUTS_CONTAINER)?.state?.terminated === undefined;
}

/** Whether the pod stores files of the run. */
export function storesFiles({ spec }: Pod): boolean {
  return spec?.containers.some(({ name }) => name === RUN_CONTAINER) === true;
}

export function hasContainer({ spec }: Pod, container: string): boolean {
  return [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].some(
    ({ name }) => name === container,
  );
}

/** Whether the program ended as one that has succeeded; null: it has not ended. */
export function hasSucceeded(pod: Pod): boolean | null {
  const ended = containerOf(pod, RUN_CONTAINER)?.state?.terminated;
  return ended === undefined ? null : ended.exitCode === 0 && ended.reason !== 'OOMKilled';
}

/** Whether the container has ended. */
export function hasEnded(pod: Pod, container: string): boolean {
  return containerOf(pod, container)?.state?.terminated !== undefined;
}

/** Whether the container runs or has ended: its log can be read. */
export function hasStarted(pod: Pod, container: string): boolean {
  const { running, terminated } = containerOf(pod, container)?.state ?? {};
  return running !== undefined || terminated !== undefined;
}

/** When the container of the run started and ended, by its node; null: not known. */
export function timesOf(pods: readonly Pod[]): ContainerTimes | null {
  const [pod] = pods.toSorted((a, b) => createdAt(a) - createdAt(b));
  const { running, terminated } = (pod && containerOf(pod, RUN_CONTAINER)?.state) ?? {};
  const startedAt = engineTime(terminated?.startedAt ?? running?.startedAt);
  const finishedAt = engineTime(terminated?.finishedAt);
  return startedAt === null && finishedAt === null ? null : { startedAt, finishedAt };
}

/** How the pod ended; null: it has not ended. */
function endOf(pod: Pod): JobStatus | null {
  const { phase, reason } = pod.status ?? {};
  const disruption = pod.status?.conditions?.find(
    ({ type, status }) => type === 'DisruptionTarget' && status === 'True',
  );
  const run = containerOf(pod, RUN_CONTAINER)?.state?.terminated;
  const outputs = containerOf(pod, OUTPUTS_CONTAINER)?.state?.terminated;
  const isOver = phase === 'Succeeded' || phase === 'Failed';
  if (isOver && pod.status?.message?.startsWith(SHM_FULL) === true) {
    const message = `Kubernetes ended the run because its /dev/shm was full: ${podReason(pod)}`;
    return { kind: 'failed', cause: 'oom', message };
  }
  if (isOverScratch(disruption?.message) || (isOver && isOverScratch(pod.status?.message)))
    return {
      kind: 'failed',
      cause: 'error',
      message: 'An empty folder of the run became larger than its scratch_mb',
    };
  if (disruption !== undefined) return lost(joined(disruption.reason, disruption.message));
  if (isOver && reason !== undefined && reason !== '') return lost(podReason(pod));
  if (run === undefined) return isOver ? helperFailed(pod) : null;
  // What the run leaves is stored first, unless the container could not be started or the pod is being deleted.
  const hasRun = ![...NOT_STARTED, ...END_UNKNOWN].includes(run.reason ?? '');
  if (!isOver && hasRun && isStoring(pod) && !endedByDeletion(pod, run.finishedAt)) return null;
  // The first process may end with 0 after another one was killed; the cluster then starts `outputs`.
  if (run.reason === 'OOMKilled')
    return { kind: 'exited', exitCode: run.exitCode || KILLED, outOfMemory: true };
  if (NOT_STARTED.includes(run.reason ?? '')) {
    const message = `The container could not be started: ${run.message ?? run.reason ?? ''}`;
    return { kind: 'failed', cause: 'error', message };
  }
  if (END_UNKNOWN.includes(run.reason ?? '')) return lost(joined(run.reason, run.message));
  if (endedByDeletion(pod, run.finishedAt)) return lost('Its pod was deleted');
  // Before the pod is over, the reason of an eviction or of a shutdown of the node may be missing.
  if (run.exitCode !== 0)
    return isOver ? { kind: 'exited', exitCode: run.exitCode, outOfMemory: false } : null;
  if (outputs === undefined) return isOver ? helperFailed(pod) : null;
  if (outputs.exitCode !== 0) return helperFailed(pod);
  return { kind: 'exited', exitCode: 0, outOfMemory: false };
}

/** Whether the container ended after its pod was deleted, also when the program then ended with 0. */
function endedByDeletion({ metadata }: Pod, finishedAt: string | undefined): boolean {
  const deletion = timeOf(metadata?.deletionTimestamp);
  if (deletion === null) return false;
  const asked = deletion - (metadata?.deletionGracePeriodSeconds ?? 0) * 1000;
  return (timeOf(finishedAt) ?? asked) >= asked;
}

function statusWithoutPod({ job, firstPod, arePodsComplete, creationProblem }: JobView): Verdict {
  if (job.metadata?.deletionTimestamp !== undefined) return lost('Its Kubernetes job was deleted');
  const ended = job.status?.conditions?.find(
    ({ type, status }) => (type === 'Complete' || type === 'Failed') && status === 'True',
  );
  const hadPod =
    ended !== undefined || firstPod !== null || job.metadata?.annotations?.[POD_ANNOTATION] !== undefined;
  if (hadPod) {
    if (!arePodsComplete) return { kind: 'pods-unknown' };
    return lost(joined('Its pod is gone', ended?.message ?? ended?.reason));
  }
  if (isDenial(creationProblem)) return { kind: 'failed', cause: 'error', message: creationProblem };
  const waiting = job.status?.conditions?.find(({ status }) => status === 'True');
  return { kind: 'pending', reason: creationProblem || joined(waiting?.type, waiting?.message) };
}

/** The engine's own words about a pod that does not run yet. */
function waitReason(pod: Pod): string {
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False') return joined(scheduled.reason, scheduled.message);
  for (const name of [INPUTS_CONTAINER, FILES_CONTAINER, RUN_CONTAINER]) {
    const waiting = containerOf(pod, name)?.state?.waiting;
    if (waiting !== undefined) return joined(waiting.reason, waiting.message);
  }
  return '';
}

/** Whether a node has the pod. */
function isPlaced(pod: Pod): boolean {
  return (
    pod.status?.conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'True') === true
  );
}

function helperFailed(pod: Pod): JobStatus {
  for (const name of [INPUTS_CONTAINER, FILES_CONTAINER, OUTPUTS_CONTAINER]) {
    const ended = containerOf(pod, name)?.state?.terminated;
    if (ended !== undefined && ended.exitCode !== 0) {
      if (name === FILES_CONTAINER && ended.exitCode === RUN_FAULT_EXIT)
        return { kind: 'failed', cause: 'error', message: ended.message ?? 'The files cannot be fetched' };
      const why = joined(ended.reason, ended.message);
      return lost(`The container '${name}' of the launcher ended with exit code ${ended.exitCode} (${why})`);
    }
  }
  return lost('Its pod ended without a report about its containers');
}

function containerOf(pod: Pod, name: string): ContainerStatus | undefined {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].find((status) => status.name === name);
}

function podReason(pod: Pod): string {
  return joined(pod.status?.reason, pod.status?.message);
}

function lost(why: string): JobStatus {
  return { kind: 'failed', cause: 'infrastructure', message: `Kubernetes ended the run: ${why}` };
}

function joined(...parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== '').join(': ');
}

function createdAt({ metadata }: Pod): number {
  return timeOf(metadata?.creationTimestamp) ?? 0;
}

/** Why a container of a pod cannot start now. */
interface WaitProblem {
  /** Name of the container. */
  readonly container: string;
  readonly cause: 'image' | 'error' | 'infrastructure';
  /** Fit for the run's error_message. */
  readonly message: string;
  /** Whether the message only says that the engine waits until it tries again. */
  readonly isBackOff: boolean;
  /** Whether it may pass: never, as busy nodes do, or as registries do. */
  readonly grace: 'none' | 'create' | 'pull';
  /** When the node began to start the container, in milliseconds since 1970; null: not known. */
  readonly startingSinceMs: number | null;
}

const NO_GRACE: readonly string[] = ['InvalidImageName', 'ErrImageNeverPull'];
const BACK_OFF = 'ImagePullBackOff';
const PULL: readonly string[] = [
  'ErrImagePull',
  BACK_OFF,
  'RegistryUnavailable',
  'ImageInspectError',
  'SignatureValidationFailed',
];
const CREATE: readonly string[] = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'];

/** What keeps the pod's next container from starting; null: nothing that is known to fail. */
export function waitProblemOf(pod: Pod): WaitProblem | null {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const statuses = [...initContainerStatuses, ...containerStatuses];
  const status = statuses.find(({ state }) => isProblem(state?.waiting?.reason));
  const reason = status?.state?.waiting?.reason;
  if (status === undefined || reason === undefined) return volumeProblemOf(pod);
  const why = status.state?.waiting?.message;
  const isImage = !CREATE.includes(reason);
  const folderOf = isImage ? undefined : unusableFolder(why);
  const isUsers = status.name === RUN_CONTAINER || folderOf !== undefined;
  const what = isImage ? `The image '${status.image}' cannot be pulled` : 'The container cannot be created';
  return {
    container: status.name,
    cause: isUsers ? (isImage ? 'image' : 'error') : 'infrastructure',
    message:
      folderOf === undefined
        ? [what, reason, why].filter((part) => part !== undefined && part !== '').join(': ')
        : `A part of the sub_path of the volume '${folderOf}' is a link or no folder, or cannot be created`,
    isBackOff: reason === BACK_OFF,
    grace: NO_GRACE.includes(reason) ? 'none' : isImage ? 'pull' : 'create',
    startingSinceMs: startingSince(pod, status, statuses),
  };
}

/** Null: its volumes exist. */
function volumeProblemOf({ spec, status }: Pod): WaitProblem | null {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  const volume = scheduled?.status === 'False' ? missingVolume(spec, scheduled.message) : undefined;
  if (volume === undefined) return null;
  return {
    container: INPUTS_CONTAINER,
    cause: 'infrastructure',
    message: `The volume '${volume}' is missing: Kubernetes does not have its claim`,
    isBackOff: false,
    grace: 'create',
    startingSinceMs: timeOf(scheduled?.lastTransitionTime),
  };
}

function isProblem(reason: string | undefined): boolean {
  return reason !== undefined && [NO_GRACE, PULL, CREATE].some((reasons) => reasons.includes(reason));
}

/** The node starts a container when the one before it has ended, the first one when the pod is bound to the node. */
function startingSince(
  pod: Pod,
  { name }: ContainerStatus,
  statuses: readonly ContainerStatus[],
): number | null {
  const order = [INPUTS_CONTAINER, FILES_CONTAINER, RUN_CONTAINER, OUTPUTS_CONTAINER];
  const before = order.slice(0, order.indexOf(name));
  const previous = statuses.findLast((status) => before.includes(status.name));
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return timeOf(previous?.state?.terminated?.finishedAt ?? scheduled?.lastTransitionTime);
}

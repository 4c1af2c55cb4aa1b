import { engineTime, type ContainerTimes } from '@longshore/worker/runtime/runtime';
import type { EngineJob, JobKey, JobStatus } from '../launcher/engine.js';
import type { FolderState } from './job-folders.js';
import { hasEnded, isWaiting, type SlurmJob } from './slurm-lines.js';

/** Everything that is known about an attempt. */
export interface AttemptFacts extends JobKey {
  /** Null: it has no folder. */
  readonly folder: FolderState | null;
  /** Its jobs in the controller's list. */
  readonly jobs: readonly SlurmJob[];
  /** Whether the list is the controller's answer, and not an older one that stands in for it. */
  readonly isListFresh: boolean;
  /** How long its job has been over without an exit record, in milliseconds. */
  readonly missingMs: number;
}

/** A signal's exit code in a shell: 128 and SIGKILL. */
const KILLED = 137;

/** A network file system may show the exit record so much later, in milliseconds. */
export const VISIBLE_MS = 60_000;

/** What Slurm did to a job that did not end by itself. */
const ENDED_BY_SLURM: Readonly<Record<string, string>> = {
  BOOT_FAIL: 'its node did not boot',
  CANCELLED: 'it was cancelled in Slurm',
  DEADLINE: 'its deadline has passed',
  LAUNCH_FAILED: 'its node could not start it',
  NODE_FAIL: 'its node has failed',
  PREEMPTED: 'another job took its resources',
  RECONFIG_FAIL: 'its node could not be reconfigured',
  REVOKED: 'another cluster has it',
};

/**
 * The job of an attempt: the one that has taken it; else the oldest one that has not ended; else the oldest. Null: it has
 * none.
 */
export function chosenJobId({ folder, jobs }: AttemptFacts): string | null {
  const live = jobs.filter((job) => !hasEnded(job)).map(({ id }) => id);
  return folder?.takenBy ?? oldest(live) ?? oldest(folder?.jobIds ?? []) ?? oldest(jobs.map(({ id }) => id));
}

/** Slurm numbers jobs in their order. */
function oldest(ids: readonly string[]): string | null {
  return ids.toSorted((one, other) => Number(one) - Number(other))[0] ?? null;
}

/** Jobs of the attempt that wait although another one is its job. */
export function superfluousJobs(facts: AttemptFacts): readonly SlurmJob[] {
  const chosen = chosenJobId(facts);
  return facts.jobs.filter((job) => job.id !== chosen && isWaiting(job));
}

/** Whether the attempt's job is over and its exit record is not there: {@link AttemptFacts.missingMs}. */
export function lacksExit(facts: AttemptFacts): boolean {
  const { folder, jobs } = facts;
  if (folder === null || folder.exit !== null) return false;
  const chosen = chosenJobId(facts);
  if (chosen === null) return false;
  const job = jobs.find(({ id }) => id === chosen);
  return job === undefined ? facts.isListFresh : hasEnded(job);
}

/** The attempt's job as the launcher sees it; null: it has none. */
export function jobOf(facts: AttemptFacts): EngineJob | null {
  const { runId, attempt, folder, jobs } = facts;
  const engineId = chosenJobId(facts);
  if (engineId === null) return null;
  const job = jobs.find(({ id }) => id === engineId) ?? null;
  // Nothing is left of it but the controller's memory.
  if (folder === null && (job === null || hasEnded(job))) return null;
  // A damaged folder does not name its launcher.
  const workerId = folder?.workerId || (job?.workerId ?? '');
  const times = timesOf(folder);
  return {
    runId,
    attempt,
    workerId,
    engineId,
    status: statusOf(facts, job, engineId),
    ...(times && { times }),
  };
}

/** When the container ran, as its job script wrote it; null: not known. */
function timesOf(folder: FolderState | null): ContainerTimes | null {
  const startedAt = engineTime(folder?.startedAtMs);
  const finishedAt = engineTime(folder?.exit?.kind === 'exited' ? folder.exit.endedAtMs : null);
  return startedAt === null && finishedAt === null ? null : { startedAt, finishedAt };
}

function statusOf(facts: AttemptFacts, job: SlurmJob | null, id: string): JobStatus {
  const { folder, isListFresh } = facts;
  const exit = folder?.exit ?? null;
  if (exit?.kind === 'image' && !exit.wasSignalled) {
    const reason = exit.message === '' ? 'the node could not get it' : exit.message;
    return { kind: 'failed', cause: 'image', message: `The image of the run could not be had: ${reason}` };
  }
  if ((exit?.kind === 'error' || exit?.kind === 'infrastructure') && !exit.wasSignalled)
    return { kind: 'failed', cause: exit.kind, message: exit.message };
  // Slurm knows better than the exit code why a program ended that was signalled or killed.
  const isClear = exit !== null && !exit.wasSignalled && exit.exitCode !== KILLED;
  if (isClear || (exit !== null && job === null && isListFresh)) return exited(exit, job, id);
  if (job !== null && hasEnded(job)) return exit === null ? lost(facts, job) : exited(exit, job, id);
  if (exit === null && job === null && isListFresh) return missing(facts, id);
  if (folder?.hasStarted === true) return { kind: 'running' };
  if (job === null) return { kind: 'pending', reason: '' };
  if (isWaiting(job)) return { kind: 'pending', reason: job.reason };
  return { kind: 'pending', reason: job.state === 'CONFIGURING' ? 'Configuring' : '', isPlaced: true };
}

/** A job that has written its exit record. */
function exited(
  { exitCode, wasSignalled }: NonNullable<FolderState['exit']>,
  job: SlurmJob | null,
  id: string,
): JobStatus {
  if (job?.state === 'OUT_OF_MEMORY') return { kind: 'exited', exitCode, outOfMemory: true };
  // The launcher's own signal comes before the end of the attempt alone, whose status is not read then.
  if (wasSignalled)
    return job !== null && isBySlurm(job)
      ? bySlurm(job)
      : { kind: 'failed', cause: 'infrastructure', message: `Slurm's job ${id} was ended from outside` };
  return { kind: 'exited', exitCode, outOfMemory: false };
}

/** A job that has ended, and no exit record yet. */
function lost(facts: AttemptFacts, job: SlurmJob): JobStatus {
  if (job.state === 'OUT_OF_MEMORY') return { kind: 'exited', exitCode: KILLED, outOfMemory: true };
  if (isBySlurm(job)) return bySlurm(job);
  return missing(facts, job.id, job.state);
}

function isBySlurm({ state }: SlurmJob): boolean {
  return state === 'TIMEOUT' || ENDED_BY_SLURM[state] !== undefined;
}

function bySlurm(job: SlurmJob): JobStatus {
  if (job.state === 'TIMEOUT') {
    const message = `Slurm ended job ${job.id} at its time limit (TIMEOUT)`;
    return { kind: 'failed', cause: 'error', message };
  }
  const words = ENDED_BY_SLURM[job.state] ?? 'it has ended';
  const message = `Slurm's job ${job.id} is lost: ${words} (${job.state})`;
  return { kind: 'failed', cause: 'infrastructure', message };
}

/** A job without an exit record, once that had time to show. */
function missing({ folder, missingMs }: AttemptFacts, id: string, state = ''): JobStatus {
  if (missingMs < VISIBLE_MS)
    return folder?.hasStarted === true ? { kind: 'running' } : { kind: 'pending', reason: '' };
  const how = state === '' ? 'the controller does not know it any more' : `it has ended (${state})`;
  const hint =
    folder?.takenBy === null
      ? 'and it has not touched its folder: do the nodes see SERVICE_WORKER_SLURM_DIR?'
      : 'and there is no exit record';
  return { kind: 'failed', cause: 'infrastructure', message: `Slurm's job ${id} is lost: ${how}, ${hint}` };
}

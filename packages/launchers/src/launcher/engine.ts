import type { Capability } from '@longshore/client/constants';
import type { FileParts } from '@longshore/worker/artifacts/download';
import type {
  ArtifactPlaces,
  ContainerTimes,
  EndedFiles,
  LogLine,
  RunSpec,
} from '@longshore/worker/runtime/runtime';
import type { Constraints } from '@longshore/worker/service-api/constraints';
import type { Collected, GetUploads } from '@longshore/worker/artifacts/collect';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import type { RegistryLogin, Resources } from '@longshore/worker/service-api/service-api';

/** The attempt that a job executes. An engine holds at most one job of an attempt. */
export interface JobKey {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
}

/** What the next process of a launcher must know of a job to go on with it. */
export interface JobMemo {
  /** Queries of the signed URLs that the program finds in inputs and template. Never log them. */
  readonly signedQueries: readonly string[];
  /** Lines that the launcher has added to the log of the run before those of the job. */
  readonly notes: readonly string[];
}

/** What an engine needs to execute an attempt. */
export interface JobSpec extends RunSpec {
  /** The GPU ids are the service's choice among the reported ones and mean nothing to an engine. */
  readonly constraints: Constraints;
  /** Tags that the run requires; those that the engine maps restrict the nodes. */
  readonly selector: readonly string[];
  /** Values of the run's secrets by environment variable; above `env`. Never log them. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Login for the pull; null: the engine's own. */
  readonly registry: RegistryLogin | null;
  readonly memo: JobMemo;
  /** What the launcher has fetched, for an engine with `files`. Null: it has not, or the run has no `artifacts`. */
  readonly artifacts: ArtifactPlaces | null;
  /** Files that the run gets and leaves, with signed URLs, for an engine with `storeFiles`; null: none. */
  readonly signedFiles: RunArtifacts | null;
}

/**
 * `pending`: submitted, the container does not run; `reason` is the engine's own words, empty if it gives none; `isPlaced`: a node
 * prepares it. `running`: the
 * container has started; `hasEnded`: it has ended, and what it leaves is being stored. `exited`: the container ended by itself. `failed`: the job ended in another way, and `message` is
 * fit for the run's error_message; with the cause `infrastructure`, the run is not to blame. The last two are final.
 */
export type JobStatus =
  | { readonly kind: 'pending'; readonly reason: string; readonly isPlaced?: true }
  | { readonly kind: 'running'; readonly hasEnded?: true }
  | { readonly kind: 'exited'; readonly exitCode: number; readonly outOfMemory: boolean }
  | {
      readonly kind: 'failed';
      readonly cause: 'image' | 'error' | 'oom' | 'infrastructure';
      readonly message: string;
    };

/** Whether the status never changes again. */
export function isFinal({ kind }: JobStatus): boolean {
  return kind === 'exited' || kind === 'failed';
}

/** Of an engine whose jobs share a folder with the launcher, which fetches and stores the files of runs for them (`artifacts`). */
export interface EngineFiles {
  /** Where they come from. */
  readonly from: FileParts;
  /**
   * What a job has left that has ended. Outages are waited for.
   * @throws EngineFault when it is lost
   */
  ended(job: EngineJob, signal: AbortSignal): EndedFiles;
}

/** A job as the engine lists it. */
export interface EngineJob extends JobKey {
  /** The launcher that submitted it. */
  readonly workerId: string;
  /** Unique in the engine for all time, and fit to be shown: the UID of a Kubernetes Job, the id of a Slurm job. */
  readonly engineId: string;
  readonly status: JobStatus;
  /** Of the container; absent: not known, as is a time that is null. */
  readonly times?: ContainerTimes;
}

/**
 * A cluster that queues and executes containers by itself, such as Kubernetes or Slurm. It never repeats a job by itself.
 * All state is the engine's: after a restart `list` finds the jobs again, and each method works for jobs that another
 * process submitted.
 */
export interface Engine {
  readonly name: 'kubernetes' | 'slurm';
  readonly capabilities: readonly Capability[];
  /** Tags that the engine maps to nodes; the launcher announces them with its own. */
  readonly tags: readonly string[];
  /** Absent: the launcher neither fetches nor stores files of runs. */
  readonly files?: EngineFiles;
  /**
   * Connects, checks settings and permissions, and lists the jobs for the first time. From then on the list is kept current.
   * @throws SettingsError when a setting is wrong or a permission is missing
   * @throws EngineFault when the engine does not answer
   */
  open(): Promise<void>;
  /** Stops to keep the list current. Jobs go on. */
  close(): Promise<void>;
  /** All jobs of the deployment, of other launchers, too. Read from memory. */
  list(): readonly EngineJob[];
  /**
   * Resolves when the engine lists the job with another status or not at all, or at once if it does so already. A job is only
   * missing when a complete list of the engine, newer than its submission, does not contain it.
   * @param known status that the caller has seen; null: none
   * @returns null: the engine does not have the job any more
   */
  nextStatus(key: JobKey, known: JobStatus | null, signal: AbortSignal): Promise<EngineJob | null>;
  /**
   * Submits the job of an attempt. Idempotent: an attempt that the engine has already is not submitted again, also
   * if another process submitted it, and its job is returned.
   * @throws RunFault when no engine of this kind could execute the run, as with inputs that are too large
   * @throws EngineFault when the engine does not answer or refuses jobs now; the job may exist nevertheless
   */
  submit(spec: JobSpec): Promise<EngineJob>;
  /**
   * The output of the container, as it is written, from its beginning: the same lines at each call. Ends after the
   * container's end with its last line. Outages of the engine, and of the job's node, are waited for.
   */
  readLines(job: EngineJob, signal: AbortSignal): AsyncIterable<LogLine>;
  /**
   * The output file of a job that exited with 0; null when there is none. Outages are waited for, too.
   * @throws RunFault when it cannot be used: it is no regular file, or too large
   * @throws EngineFault when the engine has lost it
   */
  readOutputs(job: EngineJob, signal: AbortSignal): Promise<Buffer | null>;
  /**
   * Gives a job that is not over fresh URLs of its sources, and shows it that a launcher follows it. Without it, an engine has no
   * `artifacts`.
   * @throws EngineFault when the engine does not answer
   */
  renewFiles?(key: JobKey, artifacts: RunArtifacts): Promise<void>;
  /**
   * Stores what the ended container of a job leaves; of a job that is over, gives what was stored. Outages are waited for.
   * @throws RunFault when it cannot be stored
   * @throws Error when its store is away, or the engine has lost it
   */
  storeFiles?(job: EngineJob, getUploads: GetUploads, signal: AbortSignal): Promise<Collected>;
  /**
   * The values of secrets that the job was submitted with, by environment variable and those of
   * files by path, until the job is removed; null when the
   * engine no longer has them.
   * @throws EngineFault when the engine does not answer
   */
  readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null>;
  /** What the job was submitted with; null: it is lost. @throws EngineFault as above */
  readMemo(key: JobKey): Promise<JobMemo | null>;
  /**
   * Ends the job with SIGTERM, after the `stop_grace_s` of its run with SIGKILL, and removes it with all that belongs to it.
   * Resolves when its container has ended as far as the engine can know. Idempotent; also for a job that is gone.
   * @throws EngineFault when the engine does not answer
   */
  remove(key: JobKey): Promise<void>;
  /** Ends the container of a job that is being removed without the rest of its grace, where the engine can. */
  kill(key: JobKey): Promise<void>;
  /** What the cluster could give to the jobs of this launcher: what is free, and what they use. Read from memory. */
  capacity(): Resources;
  /** @throws EngineFault when the engine cannot take jobs now */
  probe(): Promise<void>;
}

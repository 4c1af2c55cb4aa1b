import type { Schemas } from '@longshore/client';
import { RUN_OPTIONS, type Capability, type RunOption } from '@longshore/client/constants';
import { capabilitiesOfConstraints, capabilitiesOfOption } from '@longshore/common/capabilities';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { toWireConstraints, type Constraints } from './constraints.js';
import type { RunArtifacts, Upload, UploadRequest } from './run-artifacts.js';

/**
 * The result of a request. `refused`: a 4xx in the service's error form that a repetition would get again, or of a proxy that
 * lets other requests pass. `unreachable`: the service has not answered (no connection, timeout, 5xx, 429, or an answer that is
 * not in a form of the service); retry later.
 */
export type Answer<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | {
      readonly kind: 'refused';
      readonly status: number;
      readonly detail: string;
      /** Whether a proxy in front of the service refuses what the request contains; the service has not seen it. */
      readonly isByProxy?: true;
    }
  | {
      readonly kind: 'unreachable';
      readonly reason: string;
      readonly status?: number;
      readonly retryAfterSeconds?: number;
      /** Bytes of the request's body, where a proxy in front of the service may refuse it. */
      readonly refusedBytes?: number;
    };

export type Refusal = Extract<Answer<never>, { kind: 'refused' }>;

export interface Gpu {
  readonly id: number;
  readonly vramMb: number;
  readonly tags: readonly string[];
}

/** Resources of this machine. */
export interface Resources {
  readonly cpuCores: number;
  readonly ramMb: number;
  readonly gpus: readonly Gpu[];
}

/** Jobs of a launcher, as its engine lists them. */
export interface EngineLoad {
  readonly name: string;
  /** Submitted, and not running yet. */
  readonly pending: number;
  readonly running: number;
}

/** The container engine of a worker, as heartbeats say it. */
export interface ContainerEngine {
  /** `docker` or `podman`. */
  readonly name: string;
  readonly version: string;
  /** The OCI runtime that containers get. */
  readonly runtime: string;
  /** Null: the engine does not tell it. */
  readonly runtime_version: string | null;
}

/** An attempt that a worker has lost and whose program it is ending. */
export interface EndingRun {
  readonly id: string;
  /** 1-based. */
  readonly attempt: number;
}

/** Why a worker does not claim at present. `draining`: it shuts down; `disk_full`: the engine is paused for want of space. */
export interface NotClaiming {
  readonly reason: Schemas['NotClaimingReason'];
  /** For people; 500 characters at most. */
  readonly message: string;
}

/** What this machine is unable to do for runs at present. */
export interface Unable {
  readonly ability: Schemas['Ability'];
  /** For people; 500 characters at most. */
  readonly message: string;
}

/** A run as a heartbeat lists it. */
export interface HeldRun {
  readonly id: string;
  readonly image: string;
  readonly inputs: JsonObject;
  readonly constraints: Constraints;
  /** 1-based; null: not in the answer of the claim. */
  readonly attempt: number | null;
}

/** The options, name and labels of a run as answers show them: null, or empty, where one is not set. */
export type RunContainer = {
  readonly [N in RunOption['name'] | 'name' | 'labels']: Unchanging<Schemas['OpRun'][N]>;
};

type Unchanging<T> = T extends (infer E)[] ? readonly E[] : Readonly<T>;

/** The options that reach a container as they are; the others reach it with the values of secrets. */
export type CarriedOptions = Omit<
  RunContainer,
  'env' | 'secrets' | 'secrets_from' | 'files' | 'image_pull_secret'
>;

/** A login at an image registry. */
export interface RegistryLogin {
  /** Host and port, or a URL. */
  readonly server: string;
  readonly username: string;
  readonly password: string;
}

/** Values of the secrets of a run. Never log or store them. */
export interface RunSecrets {
  /** By environment variable. */
  readonly env: Readonly<Record<string, string>>;
  /** Of files, by path; bytes that are no text as they are. */
  readonly files: Readonly<Record<string, string | Buffer>>;
  /** Null: the run has no pull secret. */
  readonly registry: RegistryLogin | null;
}

/** A run of a claim's answer. */
export interface ClaimedRun extends HeldRun {
  readonly container: RunContainer;
  /** Absent: none. */
  readonly artifacts?: RunArtifacts;
  /** Its time by its schedule; absent: no schedule made it. */
  readonly scheduledFor?: string;
  /** Its place in its array; absent: it is in none. */
  readonly array?: { readonly index: number; readonly size: number };
  /** Null: the run is not traced. */
  readonly trace: TraceContext | null;
}

export interface HeartbeatReport {
  readonly workerId: string;
  readonly resources: Resources;
  /** Null: there is no engine. */
  readonly load: EngineLoad | null;
  readonly tags: readonly string[];
  readonly capabilities: readonly Capability[];
  /** Empty: it claims. */
  readonly notClaiming: readonly NotClaiming[];
  readonly unable: readonly Unable[];
  readonly runningOps: readonly HeldRun[];
  readonly endingOps: readonly EndingRun[];
  /** Null: there is none. */
  readonly containerEngine: ContainerEngine | null;
  /** For how long the worker will be away while its runs go on, in whole seconds; null: it is here. */
  readonly awaySeconds: number | null;
}

export interface HeartbeatCall {
  /** Whole seconds that the service may delay the answer until a run is lost; 0: sends no `wait`. */
  readonly waitSeconds: number;
  /** Timeout of the request, in milliseconds; contains the wait. */
  readonly timeoutMs: number;
  /** Aborts the request; the answer is then `unreachable`. */
  readonly signal: AbortSignal;
}

export interface HeartbeatAnswer {
  /** Worker timeout of the service; null: not in the answer. */
  readonly workerTimeoutSeconds: number | null;
  /** Limit of the service for the body of a request, in bytes; null: not in the answer. */
  readonly maxBodyBytes: number | null;
  /** The reported runs that this worker has lost; null: an older service, which does not tell. */
  readonly lostRuns: readonly LostRun[] | null;
  /** Those of the ending runs that are to be killed. */
  readonly killedRuns: readonly EndingRun[];
}

/** Whose a run is. */
export interface RunOwnership {
  readonly state: string;
  readonly currentAttempt: number;
  /** The assigned worker; null: none. */
  readonly workerId: string | null;
}

/** A run that a heartbeat listed and this worker has lost. */
export interface LostRun extends RunOwnership {
  readonly id: string;
}

/** What an API key may do. */
export interface KeyView {
  readonly scopes: readonly string[];
  /** Ids of workers, or the beginnings of ids with `*` at the end; null: every id. */
  readonly workerIds: readonly string[] | null;
}

export interface ClaimCall {
  /** Limit of runs in the answer; absent: the strategy's. */
  readonly max?: number | undefined;
  /** Whole seconds that the service may delay an empty answer; 0: sends no `wait`. */
  readonly waitSeconds: number;
  /** Until the answer begins, in milliseconds; contains the wait. */
  readonly timeoutMs: number;
  /** Aborts the request; the answer is then `unreachable`. */
  readonly signal: AbortSignal;
  /** Called with the ids of the assigned runs when the answer begins: large inputs take their time. */
  readonly onAssigned: (runIds: readonly string[]) => void;
}

/** The part of a run that the worker reads. */
export interface RunView extends RunOwnership {
  readonly image: string;
  readonly inputs: JsonObject;
  /** The caller's template until the run has ended. */
  readonly outputs: JsonObject;
  readonly constraints: Constraints;
  readonly container: RunContainer;
  /** Absent: none. With signed URLs where the answer is for the holder. */
  readonly artifacts?: RunArtifacts;
  /** Tags that a worker of the run must have. */
  readonly selector: readonly string[];
  /** Whether the run fails if no worker begins with it in time. */
  readonly mustStartInTime: boolean;
  /** Null: the run is not traced. */
  readonly trace: TraceContext | null;
}

export interface RunEvent {
  readonly type: string;
  readonly msg: string | number;
  readonly payload?: JsonObject | undefined;
}

/** An event on the timeline of a run. */
export interface TimelineEntry extends RunEvent {
  /** In the whole timeline, 0-based. */
  readonly index: number;
  /** 1-based. */
  readonly attempt: number;
}

/** The worker and the attempt of a request about a run; the service refuses those of an ended attempt. */
export interface RunHolder {
  readonly workerId: string;
  /** Null: not known yet. */
  readonly attempt: number | null;
}

/** The sender of an event. */
export interface Reporter extends RunHolder {
  /** The same for every repetition of an event. */
  readonly idempotencyKey: string;
  /** Null: the run is not traced. */
  readonly trace: TraceContext | null;
}

/** A line of a container's log. */
export interface ShippedLine {
  /** Time of reading: milliseconds since 1970 in UTC. */
  readonly atMs: number;
  readonly stream: Schemas['LogStream'];
  readonly text: string;
  /** Whether it continues the previous line of its stream. */
  readonly isContinued: boolean;
  /** Up to its end, in its stream; absent: not counted. */
  readonly end?: number | undefined;
}

/** Consecutive lines of an attempt's log. */
export interface LogChunk {
  /** Number of the first line within the attempt, 0-based; dropped lines count. */
  readonly firstLine: number;
  readonly lines: readonly ShippedLine[];
  /** Bytes of the lines dropped directly before the first line. */
  readonly skippedBytes: number;
  /** Only the last chunk may be empty. */
  readonly isLast: boolean;
  /** What the next process of the worker goes on from; absent: none does. */
  readonly cursor?: string | undefined;
}

/** What the log of an attempt expects next. */
export interface LogPosition {
  readonly nextChunk: number;
  readonly nextLine: number;
  /** Of the newest chunk that had one; absent: none had. */
  readonly cursor?: string | undefined;
}

/** An attempt that the service has assigned to a worker. */
export interface HeldAttempt {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly log: LogPosition;
}

export interface ChunkAddress {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly workerId: string;
  /** 0-based within the attempt. */
  readonly number: number;
}

/** The requests of the worker. No method throws, and every request has a timeout. */
export interface ServiceApi {
  heartbeat(report: HeartbeatReport, call: HeartbeatCall): Promise<Answer<HeartbeatAnswer>>;
  /** @param idempotencyKey repeat a claim without an answer under the same key: it returns the same runs */
  claim(workerId: string, idempotencyKey: string, options: ClaimCall): Promise<Answer<readonly ClaimedRun[]>>;
  /** The attempts that the worker holds. An older service refuses. */
  listHeld(workerId: string): Promise<Answer<readonly HeldAttempt[]>>;
  /** Removes the worker from the service's list, unless runs are assigned to it. An older service refuses. */
  removeWorker(workerId: string): Promise<Answer<null>>;
  /** What the service knows about the worker's key. */
  whoami(): Promise<Answer<KeyView>>;
  /** @param holder gets signed URLs in the template of the outputs and beside the sources of files, anew each time; absent: nobody */
  getRun(runId: string, holder?: RunHolder): Promise<Answer<RunView>>;
  /** The newest entries of the run's timeline, at most 1,000, oldest first. */
  getTimeline(runId: string): Promise<Answer<readonly TimelineEntry[]>>;
  /** The values of the run's secrets, only for the worker and the attempt that hold it. */
  getSecrets(runId: string, holder: RunHolder): Promise<Answer<RunSecrets>>;
  /**
   * Signs uploads of what the run gives, anew each time. An older service, and one without a store, refuses or is unreachable.
   */
  getUploads(
    runId: string,
    request: UploadRequest,
    holder: RunHolder,
  ): Promise<Answer<Readonly<Record<string, Upload>>>>;
  postEvent(runId: string, event: RunEvent, reporter: Reporter): Promise<Answer<null>>;
  /**
   * Idempotent.
   * @param signal aborts the request; the answer is then `unreachable`
   * @returns the end of the stored log, also when the chunk's number is stored already
   */
  putLogChunk(address: ChunkAddress, chunk: LogChunk, signal: AbortSignal): Promise<Answer<LogPosition>>;
}

/** The capabilities that a run needs, each once. */
export function neededCapabilities({
  container,
  constraints,
  artifacts,
}: Pick<ClaimedRun, 'container' | 'constraints' | 'artifacts'>): string[] {
  const needed = RUN_OPTIONS.flatMap(({ name, default: unset, capabilities }) => {
    const value = container[name];
    return value === unset || !isSet(value) ? [] : capabilitiesOfOption(capabilities, value);
  });
  const ofArtifacts = [artifacts?.in, artifacts?.out].some(isSet) ? ['artifacts'] : [];
  const ofConstraints = capabilitiesOfConstraints(toWireConstraints(constraints));
  return [...new Set([...needed, ...ofArtifacts, ...ofConstraints])];
}

/** An empty map or list is not set. */
function isSet(value: RunContainer[RunOption['name']] | object | undefined): boolean {
  if (value === undefined) return false;
  if (typeof value !== 'object') return true;
  return value !== null && Object.keys(value).length > 0;
}

/** Names of the secrets that a run uses. */
export function secretNames(container: RunContainer): string[] {
  const { secrets, secrets_from: maps, files, image_pull_secret: login } = container;
  const listed = [...maps, ...Object.values(files)].flatMap(({ secret }) => secret ?? []);
  return [...new Set([...Object.values(secrets), ...listed, ...(login === null ? [] : [login])])];
}

/** Paths of the files of a run that have values of secrets. */
export function secretFiles({ files }: Pick<RunContainer, 'files'>): string[] {
  return Object.keys(files).filter((path) => files[path]?.secret !== undefined);
}

/** What of the options the container gets as it is. */
export function carriedOptions(container: RunContainer): CarriedOptions {
  const {
    env: _env,
    secrets: _secrets,
    secrets_from: _maps,
    files: _files,
    image_pull_secret: _login,
    ...carried
  } = container;
  return carried;
}

/** Replaces characters that the service cannot store (NUL and lone surrogates) by U+FFFD. */
export function storable(text: string): string {
  return text.replace(/[\0\p{Surrogate}]/gu, '\uFFFD');
}

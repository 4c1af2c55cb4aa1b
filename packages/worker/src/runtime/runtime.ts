import type { Readable } from 'node:stream';
import type { Schemas } from '@longshore/client';
import type { Capability } from '@longshore/client/constants';
import type { WORKER_VARIABLES } from '@longshore/common/variable-names';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { Constraints } from '../service-api/constraints.js';
import type { CarriedOptions, ContainerEngine, RegistryLogin, Unable } from '../service-api/service-api.js';
import { readTimestamp } from '@longshore/common/json/read-timestamp';

/** What engines of containers, Docker and Kubernetes, do for a run. */
export const CONTAINER_CAPABILITIES = [
  'env',
  'command',
  'secrets',
  'secrets_from',
  'files',
  'scratch',
  'registry',
  'container',
  'cpu_millis',
  'gpus',
  'shm',
] as const satisfies Capability[];

/** What a container gets; 0: no limit. MB are 2^20 bytes. `vramMb` above 0 without GPU ids means "any GPU". */
export type ContainerLimits = Pick<
  Constraints,
  'ramMb' | 'vramMb' | 'cpuMillis' | 'cpuLimitMillis' | 'shmMb' | 'gpuIds'
>;

/** A file that a container finds at its start. */
export interface ContainerFile {
  /** Absolute. Folders that are missing are created. */
  readonly path: string;
  /** Bytes where it is no text. */
  readonly content: string | Buffer;
  /** Permissions. */
  readonly mode: number;
  /** Whether the content is the value of a secret: never log it. */
  readonly isSecret: boolean;
}

/** What the container of an attempt gets, on a machine or as a job. A list of its options that is empty is not set. */
export interface RunSpec extends CarriedOptions {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly image: string;
  readonly inputs: JsonObject;
  /** Initial content of the output file unless empty. */
  readonly outputTemplate: JsonObject;
  /** Environment variables of the run; the worker's own take precedence. */
  readonly env: Readonly<Record<string, string>>;
  /** Of the user that the run names, else of root. */
  readonly files: readonly ContainerFile[];
  /** Passed to the container as TRACEPARENT; null: the run is not traced. */
  readonly trace: TraceContext | null;
}

/** What is put into a container from one source of its files. Paths are below that of the source; empty: the source itself. */
export type FetchedEntry =
  | {
      readonly kind: 'file';
      readonly path: string;
      /** Permissions. */
      readonly mode: number;
      readonly bytes: number;
      /** Read it before the next entry. */
      readonly content: Readable;
    }
  | { readonly kind: 'folder'; readonly path: string }
  /** @property target relative to the folder of the link */
  | { readonly kind: 'link'; readonly path: string; readonly target: string }
  /** @property as path of a file before it that it is another name of */
  | { readonly kind: 'same'; readonly path: string; readonly as: string; readonly mode: number };

/** A source of a run's files that is fetched. */
export interface FetchedSource {
  /** Absolute. Folders that are missing are created. */
  readonly path: string;
  /** Those of a folder belong to the user of the run. */
  readonly kind: 'file' | 'folder';
  /** Reads it from the beginning. Folders come before what is in them. */
  entries(): AsyncIterable<FetchedEntry>;
}

/** What the option `artifacts` of a run asks a container for. */
export interface ArtifactPlaces {
  readonly fetched: readonly FetchedSource[];
  /** Folders in which the program leaves what it gives; of the user of the run. */
  readonly folders: readonly string[];
}

/** The files of an ended container. No link is followed: what is one, or behind one, is missing. */
export interface EndedFiles {
  /** Paths of the regular files below a folder, relative to it. */
  list(folder: string): AsyncIterable<string>;
  /** Null: there is no regular file at the path. Destroy the content when it is not read to its end. */
  open(path: string): Promise<OpenedFile | null>;
}

export interface OpenedFile {
  readonly bytes: number;
  readonly content: Readable;
}

/** A container of this machine. Its image is what `pull` has returned; values of secrets are among its variables. */
export interface ContainerSpec extends RunSpec {
  readonly limits: ContainerLimits;
  /** Names of the variables that have values of secrets. */
  readonly secretNames: readonly string[];
  /** Queries of the signed URLs that it finds: nothing that it prints of them is shown. */
  readonly signedQueries: readonly string[];
  /** Null: the run has no `artifacts`. */
  readonly artifacts: ArtifactPlaces | null;
}

/** One line of a container's output, without its line end. */
export interface LogLine {
  readonly stream: Schemas['LogStream'];
  readonly text: string;
  /**
   * Absent: a whole line. A line that is too long, or that is not finished for some time, comes in parts: its first one, those
   * between, and its last one, which may be empty.
   */
  readonly part?: 'start' | 'rest' | 'end';
  /** Where it is in its stream, in bytes; absent: another process cannot find it there again. */
  readonly bytes?: LineBytes;
}

/** Counts of the bytes of a stream. */
export interface LineBytes {
  /** Before the line that it is, or is a part of. */
  readonly line: number;
  /** Up to its end, with the line end. */
  readonly end: number;
}

/** How much of each stream of an output was read, in bytes. */
export type OutputEnds = Readonly<Record<LogLine['stream'], number>>;

export const NOTHING_READ: OutputEnds = { stdout: 0, stderr: 0 };

/** Texts from which the next process of a worker goes on with an output. */
export interface OutputCursors {
  /** @param atMs when the newest line was read */
  write(ends: OutputEnds, atMs: number): string;
  /** Null: it is not one of them. */
  read(cursor: string): OutputEnds | null;
}

/** How a container ended. */
export interface ContainerExit {
  /** 128 + signal when a signal ended it. */
  readonly exitCode: number;
  /** Whether the engine reports that the memory limit ended it. */
  readonly outOfMemory: boolean;
}

/** What a later process of the worker needs of a container to go on with it. */
export interface KeptContainer {
  /** Unique for all time, and fit to be shown. */
  readonly id: string;
  readonly cursors: OutputCursors;
}

/** A container that an earlier process of this worker has left. */
export interface FoundContainer {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly id: string;
  /** Whether it was started under the lock of this worker: else its worker may still run. */
  readonly isOwn: boolean;
}

/** What is known of a container that is gone on with. */
export interface Adoption {
  /** The attempt's. */
  readonly mounts: RunSpec['mounts'];
  /** As in {@link ArtifactPlaces}. */
  readonly folders: readonly string[];
  /** Paths of its files that have values of secrets. */
  readonly secretFiles: readonly string[];
  /** From which its lines are new; absent: from the first. */
  readonly cursor?: string | undefined;
}

export interface AdoptedContainer {
  readonly container: RunningContainer;
  /** Values of secrets that it was created with, by variable, and by path those of files that can be read still. Never log them. */
  readonly secrets: Readonly<Record<string, string | Buffer>>;
  /** As in {@link ContainerSpec}. */
  readonly signedQueries: readonly string[];
  /** How much of its output is stored already. */
  readonly stored: OutputEnds;
}

/** A started container. */
export interface RunningContainer {
  /** Null: it ends with this process. */
  readonly kept: KeptContainer | null;
  /**
   * Lines of both streams in order of arrival; can be read once. A slow reader slows the container down. Ends after the
   * container's end, with its last line.
   */
  readonly lines: AsyncIterable<LogLine>;
  /** Resolves when the container has ended by itself; rejects when the engine cannot report its exit, or ended it. */
  readonly exit: Promise<ContainerExit>;
  /** Complete once `exit` has resolved, if the engine says them. */
  times(): ContainerTimes;
  /** Asks the container to end, and kills it after `graceSeconds`. A later call may shorten that. Idempotent. */
  stop(graceSeconds: number): Promise<void>;
  /**
   * The output file of an ended container that is not removed yet; null when there is none.
   * @throws RunFault when it cannot be used
   * @throws Error fit for a run's error_message when this machine cannot read it
   */
  readOutputs(): Promise<Buffer | null>;
  /** Opens the files of an ended container that is not removed yet, for the time of a task. */
  readFiles<T>(task: (files: EndedFiles) => Promise<T>): Promise<T>;
  /** What the engine has not done of what it was asked for, in its words; empty: all is done. */
  readonly warnings: readonly string[];
  /** Removes the container and its files. Idempotent. */
  remove(): Promise<void>;
}

/** Executes containers: with a Docker engine, or as child processes. */
export interface Runtime {
  readonly name: 'docker' | 'process';
  readonly capabilities: readonly Capability[];
  /** Null: there is none, or it is not known. */
  readonly containerEngine: ContainerEngine | null;
  /**
   * Keeps an image on this machine for a claimed run, from its pull on.
   * @returns ends that; idempotent
   */
  keep(image: string): () => void;
  /**
   * Pulls the newest image.
   * @param login for its registry; the image is then never taken from this machine alone. Null: none
   * @returns what {@link ContainerSpec.image} is for this run: names may move to other images
   * @throws RunFault when there is no such image
   * @throws EngineFault when the engine fails
   * @throws Error fit for a run's error_message when the image is not available now
   */
  pull(image: string, signal: AbortSignal, login?: RegistryLogin | null): Promise<string>;
  /**
   * Creates and starts the container. Not started once the signal is aborted: then it is removed.
   * @throws RunFault when no machine could start it
   * @throws EngineFault when this machine cannot start containers now
   * @throws MachineUnable when it cannot give this one what the run needs
   * @throws Error fit for a run's error_message when this machine cannot start this one
   */
  start(spec: ContainerSpec, signal?: AbortSignal): Promise<RunningContainer>;
  /** Lists the started containers of runs, ended ones among them, of other processes with this worker's id. Requires its lock. */
  findLeft(): Promise<readonly FoundContainer[]>;
  /**
   * Goes on with one of them: from the call on it belongs to this process. Waits while the engine does not answer.
   * @throws Error when the engine does not have it any more
   */
  adopt(found: FoundContainer, adoption: Adoption): Promise<AdoptedContainer>;
  /** Removes one that could not be gone on with. Idempotent. */
  removeFound(found: FoundContainer): Promise<void>;
  /**
   * Removes the containers, and their files, that previous processes of this worker left, and those of this one that belong
   * to no attempt any more. Requires the lock of the worker's id.
   * @returns the number of containers
   */
  removeLeftovers(): Promise<number>;
  /**
   * Removes containers of this worker's id that were started under another lock, by a process that may still run: only those
   * of lost attempts.
   * @param isLost whether the service has given the attempt to another worker or has ended it; false when that is unknown
   * @returns the number of containers that remain
   */
  removeAbandoned(isLost: (runId: string, attempt: number) => Promise<boolean>): Promise<number>;
  /** Removes images that workers have pulled and that are beyond their budget. */
  removeUnusedImages(): Promise<void>;
  /**
   * Starts something that executes nothing of a run and that no client controls, without a registry.
   * @throws Error that says why this machine cannot start containers now
   */
  probe(): Promise<void>;
  /**
   * The same with GPUs of this machine.
   * @throws MachineUnable when the engine cannot give containers these GPUs
   */
  probeGpus(ids: readonly number[]): Promise<void>;
  /** Limits that the engine says it discards, with a sentence for the operator. @throws Error when it does not say */
  discardedLimits(): Promise<readonly Unable[]>;
}

/**
 * A failure caused by the run itself, which would fail on every worker. Any other error counts as a failure of this
 * machine. The message is fit for the run's error_message.
 */
export class RunFault extends Error {
  /** What FAILED gives as its cause. */
  readonly reported: 'image' | 'error';

  constructor(message: string, { reported = 'error', ...options }: RunFaultOptions = {}) {
    super(message, options);
    this.name = 'RunFault';
    this.reported = reported;
  }
}

interface RunFaultOptions extends ErrorOptions {
  /** `image`: the image cannot be had; default: `error`. */
  readonly reported?: 'image' | 'error';
}

/** A failure of the engine, which every run on this machine would meet. The message is fit for the run's error_message. */
export class EngineFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EngineFault';
  }
}

/** This machine cannot do for now what other machines could, and other runs may not need. */
export class MachineUnable extends Error {
  /**
   * @param message fit for a run's error_message
   * @param words of the engine, for the operator
   */
  constructor(
    readonly ability: Unable['ability'],
    message: string,
    readonly words: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The log of a runtime; a pino logger fits. */
export interface RuntimeLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Whether a run gets GPUs. */
export function usesGpus({
  vramMb = 0,
  gpus = 0,
  gpuIds = [],
}: Partial<Pick<Constraints, 'vramMb' | 'gpus' | 'gpuIds'>>): boolean {
  return gpus > 0 || vramMb > 0 || gpuIds.length > 0;
}

/**
 * For a run without GPUs, whatever it and its image say: NVIDIA's runtime then does nothing, while with `none` it would still
 * add the driver.
 */
const NO_GPUS = { NVIDIA_VISIBLE_DEVICES: 'void' };

/**
 * The environment variables that every container gets from its worker. Those of the trace context are named as in
 * OpenTelemetry.
 * @param folder of the input and output files, as the program sees it
 */
export function workerEnvironment(
  { runId, attempt, trace }: Pick<ContainerSpec, 'runId' | 'attempt' | 'trace'>,
  limits: Pick<ContainerLimits, 'cpuMillis' | 'ramMb'> &
    Partial<Pick<Constraints, 'vramMb' | 'gpus' | 'gpuIds'>>,
  folder: string,
): Readonly<Record<string, string>> {
  const { cpuMillis, ramMb } = limits;
  const own: Readonly<Record<(typeof WORKER_VARIABLES)[number], string>> = {
    SERVICE_INPUT_PATH: `${folder}/input.json`,
    SERVICE_OUTPUT_PATH: `${folder}/output.json`,
    SERVICE_RUN_ID: runId,
    SERVICE_RUN_ATTEMPT: String(attempt),
    SERVICE_CPU: String(Math.max(1, Math.ceil(cpuMillis / 1000))),
    SERVICE_RAM_MB: String(ramMb),
  };
  return {
    ...(trace === null ? {} : { TRACEPARENT: trace.traceparent }),
    ...(trace === null || trace.tracestate === null ? {} : { TRACESTATE: trace.tracestate }),
    ...own,
    ...(usesGpus(limits) ? {} : NO_GPUS),
  };
}

/** When a container started and ended, by the clock of its engine: ISO 8601 in UTC; null: not known. */
export interface ContainerTimes {
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

export const NO_TIMES: ContainerTimes = { startedAt: null, finishedAt: null };

/** Engines say with the year 1 that there is no such time. */
const FIRST_MS = Date.parse('1970-01-02T00:00:00Z');

/** A time as an engine says it. @param given text in ISO 8601, or milliseconds since 1970 */
export function engineTime(given: string | number | null | undefined): string | null {
  const time = typeof given === 'string' ? readTimestamp(given) : new Date(given ?? Number.NaN);
  return time !== null && time.getTime() >= FIRST_MS ? time.toISOString() : null;
}

/** The times as payloads of events hold them: those that are known. */
export function timesPayload({ startedAt, finishedAt }: ContainerTimes): JsonObject {
  return {
    ...(startedAt === null ? {} : { started_at: startedAt }),
    ...(finishedAt === null ? {} : { finished_at: finishedAt }),
  };
}

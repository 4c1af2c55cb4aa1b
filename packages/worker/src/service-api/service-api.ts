import type { JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';

/**
 * What the service said. `refused` is an explicit no (4xx) that the same request would get again; `unreachable` is no
 * usable answer at all (no connection, time limit, 5xx, 429, something that is not our service's answer): try later.
 */
export type Answer<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string }
  | { readonly kind: 'unreachable'; readonly reason: string; readonly retryAfterSeconds?: number };

/** An answer that is an explicit no. */
export type Refusal = Extract<Answer<never>, { kind: 'refused' }>;

/** One GPU of this machine. */
export interface Gpu {
  readonly id: number;
  readonly vramMb: number;
  readonly tags: readonly string[];
}

/** What this machine has to offer. */
export interface Resources {
  readonly cpuCores: number;
  readonly ramMb: number;
  readonly gpus: readonly Gpu[];
}

/** What a run asks of the hardware; 0 means "no requirement, no limit". */
export interface Constraints {
  readonly ramMb: number;
  readonly vramMb: number;
  readonly cpu: number;
  /** The GPU that the service chose, or null. */
  readonly gpuId: number | null;
}

/** A run as the claim hands it out and as a heartbeat lists it. */
export interface HeldRun {
  readonly id: string;
  readonly image: string;
  readonly inputs: JsonObject;
  readonly constraints: Constraints;
}

/** A run that a claim handed to this worker. */
export interface ClaimedRun extends HeldRun {
  /** 1-based; null when the service does not say. */
  readonly attempt: number | null;
  /** Where in a trace the run belongs; null: nobody traces it. */
  readonly trace: TraceContext | null;
}

/** What a heartbeat says. */
export interface HeartbeatReport {
  readonly workerId: string;
  readonly resources: Resources;
  readonly tags: readonly string[];
  readonly runningOps: readonly HeldRun[];
}

/** How a claim is asked. */
export interface ClaimCall {
  /** Whole seconds that the service may hold an empty answer back; 0 does not speak of it at all. */
  readonly waitSeconds: number;
  readonly timeLimitMs: number;
  /** Breaks the request off; the answer is `unreachable` then. */
  readonly signal: AbortSignal;
}

/** What the worker needs to know of a run's present state. */
export interface RunView {
  readonly state: string;
  readonly currentAttempt: number;
  readonly image: string;
  readonly inputs: JsonObject;
  /** Before the run ended: the caller's template. */
  readonly outputs: JsonObject;
  /** The worker that the run is assigned to; null when there is none. */
  readonly workerId: string | null;
}

/** An event for a run's timeline. */
export interface RunEvent {
  readonly type: string;
  readonly msg: string | number;
  readonly payload?: JsonObject | undefined;
}

/** Who reports an event, so that the service can refuse reports for an ended attempt. */
export interface Reporter {
  readonly workerId: string;
  /** Null when it is not known yet. */
  readonly attempt: number | null;
  /** The same for every try of one event, so that a lost answer does not record it twice. */
  readonly idempotencyKey: string;
  /** Where in a trace the report belongs; null: nobody traces the run. */
  readonly trace: TraceContext | null;
}

/** A line of a container's log, as it is shipped. */
export interface ShippedLine {
  /** When it was read: milliseconds since 1970 in UTC. */
  readonly atMs: number;
  readonly stream: 'stdout' | 'stderr';
  /** Storable, and no longer than the service takes. */
  readonly text: string;
  /** Whether it goes on where the last line of its stream ended: a piece of a longer line. */
  readonly isContinued: boolean;
}

/** Lines of an attempt's log, next to each other. */
export interface LogChunk {
  /** Number of the first line within the attempt, from 0 and dense, lines left out included. */
  readonly firstLine: number;
  readonly lines: readonly ShippedLine[];
  /** Bytes of UTF-8 of the lines that were left out right before the first one. */
  readonly skippedBytes: number;
  /** Whether nothing comes after it; only such a chunk may be empty. */
  readonly isLast: boolean;
}

/** Where a chunk goes, and from whom. */
export interface ChunkAddress {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly workerId: string;
  /** From 0, counting up by one within the attempt. */
  readonly number: number;
}

/** All that the worker asks of the service. No method throws: whatever happens is an answer. Every request has a time limit. */
export interface ServiceApi {
  /** @returns the seconds of silence after which the service gives a worker up; null when it does not say */
  heartbeat(
    report: HeartbeatReport,
    timeLimitMs: number,
  ): Promise<Answer<{ readonly workerTimeoutSeconds: number | null }>>;
  /** @param idempotencyKey kept until an answer arrived: a claim whose answer was lost hands out the same runs again */
  claim(workerId: string, idempotencyKey: string, options: ClaimCall): Promise<Answer<readonly ClaimedRun[]>>;
  getRun(runId: string): Promise<Answer<RunView>>;
  postEvent(runId: string, event: RunEvent, reporter: Reporter): Promise<Answer<null>>;
  /**
   * Harmless to repeat: a chunk that is stored already changes nothing.
   * @param signal breaks the request off; the answer is `unreachable` then
   * @returns the number of the chunk that the service expects next
   */
  putLogChunk(
    address: ChunkAddress,
    chunk: LogChunk,
    signal: AbortSignal,
  ): Promise<Answer<{ readonly nextChunk: number }>>;
}

/** Whether the service does not take this worker's key, for anything. */
export function isKeyRefusal({ status }: Refusal): boolean {
  return status === 401 || status === 403;
}

/** Whether a refused report means that the run has ended or belongs to somebody else by now. */
export function isLossOfRun(refusal: Refusal): boolean {
  return (
    refusal.status === 409 ||
    (refusal.status === 400 && refusal.detail.startsWith('Run is already in terminal state'))
  );
}

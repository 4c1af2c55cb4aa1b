/** States of a run, as the specification names them. */
export const STATES = ['PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED'] as const;
export type State = (typeof STATES)[number];

/**
 * What became of a request: an answer of 2xx, a refusal (4xx), or unknown. A timeout, a reset and 5xx are "maybe": it
 * may have been carried out or not.
 */
export type Outcome<T> =
  | { readonly kind: 'answered'; readonly value: T }
  | { readonly kind: 'refused'; readonly status: number }
  | { readonly kind: 'maybe' };

/** What every request leaves. Times are milliseconds since 1970, never going back within one history. */
interface Sent<T> {
  /** Who sent it. */
  readonly actor: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly outcome: Outcome<T>;
}

/** A run and one of its attempts. */
export interface Handed {
  readonly runId: string;
  readonly attempt: number;
}

/** An entry of a timeline. `mark` is the sender's unique mark in the payload; null: the service's own entry. */
export interface Entry {
  readonly id: number;
  readonly type: string;
  readonly t: number;
  readonly mark: string | null;
}

/** What the end of another run must be before a run starts. */
export interface Dependency {
  readonly run: string;
  readonly when: 'completed' | 'failed' | 'ended';
}

/** POST /runs. */
export interface CreateCall extends Sent<{ readonly runId: string }> {
  readonly kind: 'create';
  /** Unique in the inputs of the run; the same for each request that repeats the creation. */
  readonly mark: string;
  readonly key: string | null;
  /** What the run waits for. */
  readonly dependsOn: readonly Dependency[];
}

/** POST /runs/{id}/events. A request that repeats another one has its mark and its key. */
export interface EventCall extends Sent<null> {
  readonly kind: 'event';
  readonly runId: string;
  readonly type: string;
  readonly mark: string;
  readonly key: string | null;
  /** What X-Worker-Id and X-Run-Attempt said; null without them. */
  readonly reporter: { readonly worker: string; readonly attempt: number } | null;
}

/** POST /runs/{id}/cancel or /retry. */
export interface CommandCall extends Sent<null> {
  readonly kind: 'cancel' | 'retry';
  readonly runId: string;
}

/** PATCH /runs/{id}. */
export interface PatchCall extends Sent<null> {
  readonly kind: 'patch';
  readonly runId: string;
  /** Null: another field. */
  readonly state: State | null;
}

/** POST /workers/{id}/claim. */
export interface ClaimCall extends Sent<readonly Handed[]> {
  readonly kind: 'claim';
  readonly worker: string;
  /** Tags of the worker. */
  readonly tags: readonly string[];
  readonly key: string | null;
}

/** POST /workers/heartbeat. */
export interface HeartbeatCall extends Sent<null> {
  readonly kind: 'heartbeat';
  readonly worker: string;
  /** Ids of the runs it named in running_ops. */
  readonly running: readonly string[];
}

/** GET /runs/{id}/events; the whole timeline. */
export interface ReadCall extends Sent<readonly Entry[]> {
  readonly kind: 'read';
  readonly runId: string;
}

/** One request and what became of it. */
export type Call = CreateCall | EventCall | CommandCall | PatchCall | ClaimCall | HeartbeatCall | ReadCall;

/** An entry as the final reading found it. */
export interface FinalEntry extends Entry {
  readonly attempt: number;
  readonly msg: string | number;
  /** Payload's worker_id: of RECLAIMED, who was lost; of STARTED, who started. */
  readonly worker: string | null;
  /** Payload's force: of RETRIED. */
  readonly force: boolean | null;
  /** Payload's cause: of FAILED, and of CANCELLED by the service. */
  readonly cause: string | null;
  /** Payload's run_id: of CANCELLED, the run that ended otherwise than this one needs it. */
  readonly parent: string | null;
}

/** An attempt as GET /runs/{id}/attempts shows it; times in milliseconds. */
export interface FinalAttempt {
  readonly attempt: number;
  readonly state: State;
  readonly worker: string | null;
  readonly assignedAt: number | null;
  readonly finishedAt: number | null;
  readonly ramMb: number;
  /** execution_summary.cause. */
  readonly cause: string | null;
}

/** How the RAM of a run grows: by a whole factor. */
export interface FinalGrowth {
  /** Of the first attempt. */
  readonly ramMb: number;
  readonly factor: number;
  readonly max: number;
  /** Causes of failures after which it grows. */
  readonly on: readonly string[];
}

/** A run as the final reading found it. */
export interface FinalRun {
  readonly id: string;
  readonly mark: string | null;
  readonly state: State;
  readonly attempt: number;
  readonly topic: string | null;
  readonly maxAttempts: number;
  /** Causes of failures that are retried; null: all. */
  readonly retryOn: readonly string[] | null;
  readonly selector: readonly string[];
  readonly concurrency: { readonly key: string; readonly limit: number } | null;
  readonly growth: FinalGrowth | null;
  /** Milliseconds since 1970. */
  readonly startAt: number | null;
  /** execution_summary.reclaims. */
  readonly reclaims: number;
  readonly timeline: readonly FinalEntry[];
  readonly attempts: readonly FinalAttempt[];
}

/** An event on a feed. */
export interface FeedEvent {
  readonly cursor: string;
  readonly runId: string;
  readonly attempt: number;
  readonly type: string;
  readonly t: number;
  readonly mark: string | null;
}

/** What a reader saw who followed a feed while it was written. */
export interface Tail {
  readonly reader: string;
  readonly topic: string;
  readonly events: readonly FeedEvent[];
}

/** A direct mutation that the audit log keeps. */
export interface AuditEntry {
  readonly runId: string;
}

/** Everything read over HTTP once all is quiet, and what tailing readers had seen by then. */
export interface FinalState {
  readonly runs: readonly FinalRun[];
  /** The feed of each topic, read from its start. */
  readonly feeds: ReadonlyMap<string, readonly FeedEvent[]>;
  readonly tails: readonly Tail[];
  readonly audit: readonly AuditEntry[];
}

/** The settings of the service that the promises depend on. */
export interface Rules {
  readonly workerTimeoutMs: number;
  readonly maxReclaims: number;
}

/** Everything that can be found. */
export const VIOLATIONS = [
  'lost-create',
  'doubled-create',
  'unknown-run',
  'refused-create-recorded',
  'lost-event',
  'doubled-event',
  'misplaced-event',
  'unknown-event',
  'refused-event-recorded',
  'lost-command',
  'unknown-command',
  'lost-patch',
  'unknown-patch',
  'feed-lost-event',
  'feed-doubled-event',
  'feed-unknown-event',
  'feed-order',
  'feed-repeat',
  'tail-differs',
  'handed-to-two-workers',
  'handed-twice',
  'claim-not-recorded',
  'ineligible-worker',
  'before-start',
  'before-dependency',
  'wrongly-cancelled',
  'over-limit',
  'report-by-another-worker',
  'attempt-hole',
  'two-live-attempts',
  'held-by-two-workers',
  'wrong-amount',
  'impossible-transition',
  'impossible-state',
  'failures-over-bound',
  'reclaims-over-bound',
  'timeline-hole',
  'time-went-back',
  'history-rewritten',
  'stale-read',
  'healthy-worker-lost-run',
  'run-not-ended',
] as const;

/** A promise that was broken, and where. */
export interface Violation {
  readonly name: (typeof VIOLATIONS)[number];
  readonly detail: string;
}

import type { JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { RunState } from './run-state.js';

/** Attempts that one run may have; the attempt with this number is the last. */
export const MAX_ATTEMPTS_OF_A_RUN = 1000;

/**
 * What the machine knows of a run: everything it decides by, nothing it only carries (image, inputs).
 * The current attempt lives here too; `state`, `progress` and the times are its own.
 */
export interface Run {
  readonly id: string;
  readonly state: RunState;
  readonly priority: number;
  /** 0-100. */
  readonly progress: number;
  /** Number of the current attempt, 1-based. */
  readonly attempt: number;
  readonly attemptId: string;
  /** Index of the first timeline entry of the current attempt. */
  readonly firstEvent: number;
  /** Entries on the timeline; also the index of the next one. */
  readonly eventCount: number;
  /** Attempts that ended by FAILED. */
  readonly failures: number;
  /** Attempts that ended because their worker was lost. */
  readonly reclaims: number;
  readonly maxAttempts: number;
  /** Pause before the attempt that follows the first failure, in seconds; it doubles with each failure. 0: none. */
  readonly backoffS: number;
  /** Longest such pause in seconds; 0: no bound of its own. */
  readonly maxBackoffS: number;
  /** Seconds within which an attempt has to be started once it can be claimed; null: no such budget. */
  readonly startWithinS: number | null;
  /** Seconds that an attempt may run; null: no such budget. */
  readonly attemptTimeoutS: number | null;
  readonly topic: string | null;
  readonly ramMb: number;
  readonly vramMb: number;
  readonly cpu: number;
  readonly gpuId: number | null;
  readonly workerId: string | null;
  readonly errorMessage: string | null;
  /** Outputs set by a command; undefined: as stored; null: the template that the run was created with. */
  readonly outputs?: JsonObject | null;
  /** When the current attempt entered the queue. */
  readonly queuedAt: Date;
  /** End of the back-off that keeps a pending run out of the queue; null: it is not in back-off. */
  readonly notBefore: Date | null;
  readonly assignedAt: Date | null;
  readonly startedAt: Date | null;
  /** Set exactly when the state is terminal. */
  readonly finishedAt: Date | null;
  readonly createdAt: Date;
  /** Never before the time of the newest timeline entry. */
  readonly updatedAt: Date;
}

/** An entry of the timeline as the machine makes it. */
export interface TimelineEntry {
  readonly runId: string;
  /** Position in the whole timeline of the run, from 0, without holes. */
  readonly index: number;
  readonly attempt: number;
  readonly type: string;
  readonly msg: string | number;
  readonly payload: JsonObject;
  readonly t: Date;
  /** State of the run after the command that recorded the entry. */
  readonly state: RunState;
}

/** What the attempt that a command may open is made with. */
export interface NextAttempt {
  readonly id: string;
  /** 0 to 1: where between half and the whole of a back-off its pause ends. */
  readonly jitter: number;
}

/** An attempt that has ended and made room for the next one. */
export interface EndedAttempt {
  readonly id: string;
  readonly runId: string;
  readonly attempt: number;
  readonly state: RunState;
  readonly progress: number;
  readonly outputs?: JsonObject | null;
  readonly gpuId: number | null;
  readonly workerId: string | null;
  readonly errorMessage: string | null;
  readonly firstEvent: number;
  /** Index after the last timeline entry of this attempt. */
  readonly endEvent: number;
  readonly queuedAt: Date;
  readonly assignedAt: Date | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date;
}

/** Everything that a new run is created with; the values are validated before they get here. */
export interface NewRun {
  readonly id: string;
  readonly attemptId: string;
  readonly image: string;
  readonly priority: number;
  readonly inputs: JsonObject;
  readonly outputsTemplate: JsonObject;
  readonly ramMb: number;
  readonly vramMb: number;
  readonly cpu: number;
  readonly maxAttempts: number;
  readonly backoffS: number;
  readonly maxBackoffS: number;
  readonly startWithinS: number | null;
  readonly attemptTimeoutS: number | null;
  readonly eventDelivery: EventDelivery | null;
  readonly definition: { readonly id: string; readonly version: string } | null;
  /** Where in a trace the run belongs; null: nobody traces it. */
  readonly trace: TraceContext | null;
}

/** Where the events of a run are mirrored to. */
export interface EventDelivery {
  readonly topic: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

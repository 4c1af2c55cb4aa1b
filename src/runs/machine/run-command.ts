import type { JsonObject } from '@longshore/common/json/json-value';
import type { Rejection } from './rejection.js';
import type { EndedAttempt, NextAttempt, Run, TimelineEntry } from './run.js';
import type { RunEvent } from './run-event.js';
import type { RunState } from './run-state.js';

/** Who reports an event, as far as they say; what is given must be true of the run. */
export interface Reporter {
  readonly workerId?: string | undefined;
  readonly attempt?: number | undefined;
}

/** What somebody, or time itself, wants to be done to a run. */
export type RunCommand =
  | {
      readonly type: 'event';
      readonly event: RunEvent;
      readonly reporter: Reporter;
      readonly nextAttempt: NextAttempt;
    }
  | { readonly type: 'assign'; readonly workerId: string; readonly gpuId: number | null }
  | {
      readonly type: 'patch';
      /** Name of the API key, for the audit log. */
      readonly keyName: string;
      readonly state?: RunState | undefined;
      readonly priority?: number | undefined;
      readonly outputs?: JsonObject | undefined;
    }
  | {
      /** The run's worker is lost; counts only while the run is in that worker's hands, at that attempt. */
      readonly type: 'reclaim';
      readonly workerId: string;
      readonly attempt: number;
      /** Null: the worker never reported. */
      readonly lastHeartbeatAt: Date | null;
      /** Worker losses that a run survives. */
      readonly maxReclaims: number;
      readonly nextAttempt: NextAttempt;
    }
  | {
      /** Time has passed: carries out the deadline that is due, if one is. */
      readonly type: 'elapse';
      readonly nextAttempt: NextAttempt;
    };

/** What a command does: the run afterwards, what its timeline gains, and the attempt that made room. */
export interface Decision {
  readonly run: Run;
  readonly entries: readonly TimelineEntry[];
  readonly endedAttempt?: EndedAttempt;
}

/** A decision, or why the command is refused. */
export type Outcome = Decision | { readonly rejection: Rejection };

/** The command of one type. */
export type Command<T extends RunCommand['type']> = Extract<RunCommand, { type: T }>;

/** True when the machine refused. */
export function isRejected(outcome: Outcome): outcome is { readonly rejection: Rejection } {
  return 'rejection' in outcome;
}

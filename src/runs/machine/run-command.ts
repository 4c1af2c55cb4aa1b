import type { JsonObject } from '@longshore/common/json/json-value';
import type { EndedAttempt, LeftFiles, Run, TimelineEntry, LabelChanges } from './run.js';
import type { NoteLimits } from './attempt.js';
import type { RunEvent } from './run-event.js';
import type { RunState, TerminalState } from './run-state.js';

/** Who reports an event. The event is rejected when the worker or the attempt, if given, does not match the run. */
export interface Reporter {
  readonly workerId?: string | undefined;
  readonly attempt?: number | undefined;
  /** Id of the API key. */
  readonly sender?: string | undefined;
}

/** What limits a run: the settings of these names. */
export interface RunLimits extends NoteLimits {
  /** Losses of workers that a run survives. */
  readonly maxReclaims: number;
  /** Seconds in which more losses do not end the run, nor within the back-offs of its own policy; 0: the number alone counts. */
  readonly lossPatience: number;
}

/** What decisions depend on beside the run, the command and the time. */
export interface Policy {
  readonly limits: RunLimits;
  /** The id of an attempt that a command opens. */
  readonly newId: () => string;
  /** From 0 to 1: where between the shortest and the longest pause the next attempt begins. */
  readonly random: () => number;
}

export type RunCommand =
  | {
      readonly type: 'event';
      readonly event: RunEvent;
      readonly reporter: Reporter;
      /** What the attempt has left, if this reports its end and the store was asked. */
      readonly left?: LeftFiles;
    }
  | {
      readonly type: 'assign';
      readonly workerId: string;
      readonly gpuId: number | null;
      /** The GPUs of a run that asks for whole ones. */
      readonly gpuIds?: readonly number[] | undefined;
    }
  | {
      readonly type: 'patch';
      /** Name of the API key, for the audit log; null: the entry of a bulk operation has it. */
      readonly keyName: string | null;
      readonly state?: RunState | undefined;
      readonly priority?: number | undefined;
      readonly outputs?: JsonObject | undefined;
    }
  | {
      readonly type: 'label';
      /** Name of the API key, for the audit log; null: the entry of a bulk operation has it. */
      readonly keyName: string | null;
      readonly labels?: LabelChanges | undefined;
      /** null: none; undefined: as it is. */
      readonly name?: string | null | undefined;
    }
  | {
      /** The run's worker is stale; rejected unless that worker still holds the run at that attempt. */
      readonly type: 'reclaim';
      readonly workerId: string;
      readonly attempt: number;
      /** Null: the worker never sent a heartbeat. */
      readonly lastHeartbeatAt: Date | null;
    }
  | {
      /** Applies the run's timer; rejected when it is not due. */
      readonly type: 'elapse';
      /** Why the run has not been started, for the message of its start timeout. */
      readonly reason?: string | undefined;
    }
  /** What the run was held for has ended. */
  | { readonly type: 'release' }
  /** Runs or arrays are made that wait for it. */
  | { readonly type: 'depend'; readonly dependents: number }
  | {
      /** Runs or groups have ended that it waits for. */
      readonly type: 'resolve';
      /** How many, as it needs it. */
      readonly met: number;
      /** Of those that have ended otherwise, one; undefined: none has. */
      readonly broken?: BrokenDependency | undefined;
    }
  /** Ends the wait for values of inputs. */
  | { readonly type: 'supply'; readonly problem?: string | undefined }
  | {
      /** Opens another attempt of a run that has ended. If it completes, so are those opened again that its end has cancelled. */
      readonly type: 'reopen';
      /** Runs and groups that it waits for; null: none. */
      readonly waitsFor: number | null;
      readonly sender?: string | undefined;
    };

/** Why a run can never start: an end that is not as it needs, or a time for which a schedule makes nothing. */
export type BrokenDependency = { readonly reason: string } & (
  | { readonly parentId: string; readonly isGroup: boolean }
  | { readonly scheduleId: string }
);

/** Result of an accepted command: the run afterwards, its new timeline entries, and the attempt that it ended, if any. */
export interface Decision {
  readonly run: Run;
  readonly entries: readonly TimelineEntry[];
  readonly endedAttempt?: EndedAttempt;
}

export type Rejection =
  | { readonly reason: 'locked'; readonly state: TerminalState }
  | { readonly reason: 'other-worker'; readonly workerId: string }
  | { readonly reason: 'stale-attempt'; readonly attempt: number }
  | { readonly reason: 'not-in-execution' }
  | { readonly reason: 'not-pending' }
  | { readonly reason: 'nothing-due' }
  | { readonly reason: 'retries-used-up' }
  | { readonly reason: 'attempt-limit' }
  | { readonly reason: 'too-many-labels' };

/** Result of a rejected command, which changes nothing. */
export interface Rejected {
  readonly rejection: Rejection;
}

export type Outcome = Decision | Rejected;

export type Command<T extends RunCommand['type']> = Extract<RunCommand, { type: T }>;

export function isRejected(outcome: Outcome): outcome is Rejected {
  return 'rejection' in outcome;
}

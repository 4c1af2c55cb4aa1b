import { deadlineKindOf, type DeadlineKind } from '../machine/deadlines.js';
import type { Decision, RunCommand } from '../machine/run-command.js';
import { SPECIAL_EVENT_TYPES } from '../machine/run-event.js';
import type { RunState } from '../machine/run-state.js';
import type { Run } from '../machine/run.js';

/** Types of events as they are counted: those with a meaning of their own, and all others as one. */
export const COUNTED_EVENT_TYPES = [...SPECIAL_EVENT_TYPES, 'custom'] as const;
export type CountedEventType = (typeof COUNTED_EVENT_TYPES)[number];

/** What made a run begin another attempt. */
export const RETRY_REASONS = ['failure', 'attempt_budget', 'loss', 'request'] as const;
export type RetryReason = (typeof RETRY_REASONS)[number];

const SPECIAL: ReadonlySet<string> = new Set(SPECIAL_EVENT_TYPES);

/** What a group does, in numbers that are told once it is committed. */
export class GroupCounts {
  readonly events = new Map<CountedEventType, number>();
  readonly retries = new Map<RetryReason, number>();
  readonly deadlines = new Map<DeadlineKind, number>();
  /** By the states it leads from and to. */
  readonly transitions = new Map<RunState, Map<RunState, number>>();
  /** Of each run that was handed out, how long it had been claimable, in seconds. */
  readonly queued: number[] = [];
  created = 0;

  /** Notes a command that was carried out. @param before the run as the command found it */
  change(command: RunCommand, before: Run, { run, entries, endedAttempt }: Decision): void {
    for (const { type } of entries) increase(this.events, isSpecial(type) ? type : 'custom');
    if (endedAttempt) increase(this.retries, retryReasonOf(command));
    if (command.type === 'elapse') {
      const kind = deadlineKindOf(before);
      if (kind) increase(this.deadlines, kind);
    }
    this.#move(before.state, run.state);
  }

  /** Notes a run that was handed out. */
  handOut({ queuedAt, assignedAt }: Run): void {
    this.#move('PENDING', 'ASSIGNED');
    if (assignedAt) this.queued.push(Math.max(0, assignedAt.getTime() - queuedAt.getTime()) / 1000);
  }

  #move(from: RunState, to: RunState): void {
    if (from === to) return;
    const known = this.transitions.get(from);
    if (known) increase(known, to);
    else this.transitions.set(from, new Map([[to, 1]]));
  }
}

function retryReasonOf(command: RunCommand): RetryReason {
  switch (command.type) {
    case 'reclaim':
      return 'loss';
    case 'elapse':
      return 'attempt_budget';
    case 'event':
      return command.event.effect.kind === 'FAILED' ? 'failure' : 'request';
    case 'assign':
    case 'patch':
      return 'request';
  }
}

function isSpecial(type: string): type is (typeof SPECIAL_EVENT_TYPES)[number] {
  return SPECIAL.has(type);
}

function increase<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

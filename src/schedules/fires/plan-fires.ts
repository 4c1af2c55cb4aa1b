import type { FireKind, ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { DomainError } from '../../common/errors/domain-error.js';
import type { BatchChange, BatchCreation } from '../../runs/journal/command.js';
import type { NewRun } from '../../runs/machine/run.js';
import { userCancel } from '../../runs/machine/run-event.js';
import { eventCommand } from '../../runs/runs.service.js';
import type { MissedTimes } from './due-times.js';
import type { NewFire } from './schedule-ledger.js';

/** A run of the schedule that has not ended. */
export interface OpenRun {
  readonly id: string;
  /** Whether it waits for the end of another one. */
  readonly isHeld: boolean;
}

/** Times in a row of which no run can be made, after which the schedule is paused. */
const MAX_FAILED_IN_ROW = 10;

/** Characters of a reason that are kept. */
const MAX_REASON = 2_000;

/** What becomes of some times of a schedule. */
export interface FirePlan {
  readonly fires: readonly NewFire[];
  readonly creations: readonly BatchCreation[];
  readonly changes: readonly BatchChange[];
  readonly failedInRow: number;
  /** Why the schedule is paused; null: it is not. */
  readonly pausedNote: string | null;
}

export interface FireQuestion {
  readonly schedule: Pick<ScheduleEntity, 'id' | 'overlap' | 'failedInRow'>;
  readonly kind: FireKind;
  /** In order. */
  readonly times: readonly Date[];
  readonly missed: MissedTimes | null;
  /** Why the schedule is paused before any of them; null: it is not. */
  readonly pausing: string | null;
  /** Those that its rule for overlaps depends on. */
  readonly open: readonly OpenRun[];
  /** Makes what is to be created for a time. @throws DomainError if there can be none */
  readonly make: (at: Date) => Promise<NewRun>;
}

/** Decides what becomes of times by the schedule's rule for overlaps; each time of a backfill gets its run. */
export async function planFires({
  schedule,
  kind,
  times,
  missed,
  pausing,
  open,
  make,
}: FireQuestion): Promise<FirePlan> {
  const fires: NewFire[] = [];
  const creations: BatchCreation[] = [];
  const overlap = kind === 'backfill' ? 'allow' : schedule.overlap;
  const present = [...open];
  let { failedInRow } = schedule;
  if (missed) {
    const { from, until, count } = missed;
    const reason = pausing ?? 'passed while no process of the service could fire it';
    fires.push({
      kind,
      nominalAt: from,
      untilAt: until,
      count,
      outcome: 'skipped_missed',
      reason,
      runId: null,
    });
  }
  const last = times.at(-1);
  for (const at of times) {
    const fire = { kind, nominalAt: at, untilAt: at, count: 1, runId: null };
    const obstacle = overlap === 'cancel_previous' && at !== last ? REPLACED : obstacleOf(overlap, present);
    if (obstacle !== null) {
      fires.push({ ...fire, outcome: 'skipped_overlap', reason: obstacle });
      continue;
    }
    try {
      const fresh = await make(at);
      const isHeld = overlap === 'queue_one' && present.length > 0;
      creations.push({ fresh, isHeld });
      present.push({ id: fresh.id, isHeld });
      fires.push({ ...fire, outcome: 'created', reason: null, runId: fresh.id });
      failedInRow = 0;
    } catch (error) {
      if (!isLasting(error)) throw error;
      fires.push({ ...fire, outcome: 'failed', reason: reasonOf(error) });
      if (kind === 'schedule') failedInRow += 1;
    }
  }
  const replaces = overlap === 'cancel_previous' && creations.length > 0;
  const command = eventCommand(userCancel(`Replaced by the next run of schedule '${schedule.id}'`), {});
  const isFailing = failedInRow >= MAX_FAILED_IN_ROW && kind === 'schedule';
  return {
    fires,
    creations,
    changes: replaces ? open.map(({ id: runId }) => ({ runId, command })) : [],
    failedInRow,
    pausedNote: isFailing ? `No run could be made ${MAX_FAILED_IN_ROW} times in a row` : pausing,
  };
}

const REPLACED = 'replaced by that of the next time, which was due as well';

/** Why a time gets no run; null: it gets one. */
function obstacleOf(overlap: ScheduleEntity['overlap'], open: readonly OpenRun[]): string | null {
  const [first] = open;
  if (!first || overlap === 'allow' || overlap === 'cancel_previous') return null;
  if (overlap === 'skip') return `run ${first.id} has not ended`;
  const held = open.find(({ isHeld }) => isHeld);
  return held ? `run ${held.id} waits already` : null;
}

/** Whether the same request fails again, and not the service. */
function isLasting(error: unknown): error is DomainError {
  return error instanceof DomainError && error.kind !== 'unavailable' && error.kind !== 'rate-limited';
}

/** The text that a client would get. */
function reasonOf({ message, errors = [] }: DomainError): string {
  return [message, ...errors].join(': ').slice(0, MAX_REASON);
}

import type { FireKind, ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { isLasting, reasonOf } from '../../common/errors/domain-error.js';
import { GROUP_LEDGER, type GroupRecord } from '../../groups/group-ledger.js';
import { batchOf } from '../../groups/members/group-planner.js';
import type { BatchChange, BatchCreation, BatchRecord } from '../../runs/journal/command.js';
import type { Dependency } from '../../runs/machine/run.js';
import { userCancel } from '../../runs/machine/run-event.js';
import { eventCommand } from '../../runs/runs.service.js';
import type { MissedTimes } from './due-times.js';
import type { Made } from './schedule-bodies.js';
import { toMissedFire, type NewFire } from './schedule-ledger.js';

/** A run of the schedule, in no group, or a group of it that has not ended. */
export interface OpenItem {
  readonly id: string;
  readonly isGroup: boolean;
  /** Whether it waits for the end of another one. */
  readonly isHeld: boolean;
}

/** Times in a row of which no run can be made, after which the schedule is paused. */
const MAX_FAILED_IN_ROW = 10;

/** What becomes of some times of a schedule. */
export interface FirePlan {
  readonly fires: readonly NewFire[];
  readonly creations: readonly BatchCreation[];
  readonly changes: readonly BatchChange[];
  /** Groups that are made or cancelled. */
  readonly groups: readonly BatchRecord<GroupRecord>[];
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
  /** Times after them that have passed as well, and are missed if these pause the schedule. */
  readonly left?: MissedTimes | null | undefined;
  /** Why the schedule is paused before any of them; null: it is not. */
  readonly pausing: string | null;
  /** Those that its rule for overlaps depends on. */
  readonly open: readonly OpenItem[];
  /** Makes what is to be created for a time. @throws DomainError if there can be none */
  readonly make: (at: Date) => Promise<Made>;
}

/** Decides what becomes of times by the schedule's rule for overlaps; each time of a backfill gets its own. */
export async function planFires({
  schedule,
  kind,
  times,
  missed,
  left,
  pausing,
  open,
  make,
}: FireQuestion): Promise<FirePlan> {
  const fires: NewFire[] = [];
  const creations: BatchCreation[] = [];
  const changes: BatchChange[] = [];
  const groups: BatchRecord<GroupRecord>[] = [];
  const overlap = kind === 'backfill' ? 'allow' : schedule.overlap;
  const present = [...open];
  let { failedInRow } = schedule;
  if (missed)
    fires.push(toMissedFire(missed, pausing ?? 'passed while no process of the service could fire it', kind));
  const last = times.at(-1);
  for (const at of times) {
    const fire = { kind, nominalAt: at, untilAt: at, count: 1, runId: null, groupId: null };
    const obstacle = overlap === 'cancel_previous' && at !== last ? REPLACED : obstacleOf(overlap, present);
    if (obstacle !== null) {
      fires.push({ ...fire, outcome: 'skipped_overlap', reason: obstacle });
      continue;
    }
    try {
      const made = await make(at);
      const awaited = overlap === 'queue_one' ? present.map(toAwaited) : [];
      const isHeld = awaited.length > 0;
      if ('group' in made) {
        const { group } = made;
        const dependsOn = [...group.dependsOn, ...awaited];
        const { ledger, record, ...batch } = batchOf({ ...group, dependsOn });
        groups.push({ ledger, record });
        creations.push(...batch.creations.map((creation) => hold(creation, awaited)));
        changes.push(...batch.changes);
        present.push({ id: group.group.id, isGroup: true, isHeld });
        fires.push({ ...fire, outcome: 'created', reason: null, groupId: group.group.id });
      } else {
        creations.push(hold({ fresh: made.run }, awaited));
        present.push({ id: made.run.id, isGroup: false, isHeld });
        fires.push({ ...fire, outcome: 'created', reason: null, runId: made.run.id });
      }
      failedInRow = 0;
    } catch (error) {
      if (!isLasting(error)) throw error;
      fires.push({ ...fire, outcome: 'failed', reason: reasonOf(error) });
      if (kind === 'schedule') failedInRow += 1;
    }
  }
  if (overlap === 'cancel_previous' && present.length > open.length) {
    const reason = `Replaced by the next ${groups.length > 0 ? 'group' : 'run'} of schedule '${schedule.id}'`;
    const command = eventCommand(userCancel(reason), {});
    for (const { id, isGroup } of open)
      if (isGroup) groups.push({ ledger: GROUP_LEDGER, record: { kind: 'cancel', groupId: id, reason } });
      else changes.push({ runId: id, command });
  }
  const isFailing = failedInRow >= MAX_FAILED_IN_ROW && kind === 'schedule';
  if (isFailing && left) fires.push(toMissedFire(left, FAILING, kind));
  return {
    fires,
    creations,
    changes,
    groups,
    failedInRow,
    pausedNote: isFailing ? FAILING : pausing,
  };
}

const FAILING = `No run could be made ${MAX_FAILED_IN_ROW} times in a row`;
const REPLACED = 'replaced by that of the next time, which was due as well';

/** Holds a run until others have ended: one that waits for others anyway waits for these as well. */
function hold(creation: BatchCreation, awaited: readonly Dependency[]): BatchCreation {
  const { fresh } = creation;
  if (awaited.length === 0) return creation;
  const { dependsOn = [], awaitedTimes = [] } = fresh;
  return dependsOn.length + awaitedTimes.length === 0
    ? { fresh, isHeld: true }
    : { fresh: { ...fresh, dependsOn: [...dependsOn, ...awaited] } };
}

function toAwaited({ id: parentId, isGroup }: OpenItem): Dependency {
  return { parentId, isGroup, need: 'ended' };
}

/** Why nothing is made for a time; null: something is. */
function obstacleOf(overlap: ScheduleEntity['overlap'], open: readonly OpenItem[]): string | null {
  const [first] = open;
  if (!first || overlap === 'allow' || overlap === 'cancel_previous') return null;
  if (overlap === 'skip') return `${nameOf(first)} has not ended`;
  const held = open.find(({ isHeld }) => isHeld);
  return held ? `${nameOf(held)} waits already` : null;
}

function nameOf({ id, isGroup }: OpenItem): string {
  return `${isGroup ? 'group' : 'run'} ${id}`;
}

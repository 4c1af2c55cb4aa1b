import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Caller } from '../../auth/access.js';
import type { FireKind, ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { GROUP_MEMBERS } from '../../groups/members/groups.job.js';
import type { Idempotency } from '../../runs/idempotency/idempotency.repository.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { AWAITED_TIMES } from '../awaited/awaited-times.job.js';
import type { Advance } from '../schedule-times.js';
import { ScheduleMetrics } from './schedule-metrics.js';
import { planFires, type OpenItem } from './plan-fires.js';
import { SCHEDULE_LEDGER, toMissedFire, type NewFire } from './schedule-ledger.js';
import { dueTimes, type MissedTimes } from './due-times.js';
import { ScheduleBodies } from './schedule-bodies.js';

/** The owner of what schedules submit: they wait in turn with the requests of API keys. */
const OWNER = { id: 'schedules', scopes: new Set(['client'] as const) };

/** Times of a schedule to be fired. */
export interface FireOrder {
  readonly schedule: ScheduleEntity;
  readonly kind: FireKind;
  readonly times: readonly Date[];
  readonly missed: MissedTimes | null;
  /** Times after them that have passed as well; undefined, as null: none have. */
  readonly left?: MissedTimes | null;
  readonly open: readonly OpenItem[];
  readonly advance: Advance | null;
  /** Why the schedule is paused instead of fired. */
  readonly pausing?: string | null;
  /** Outcomes of earlier fires of these times, which are replaced. */
  readonly replaced?: readonly NewFire['outcome'][];
  /** Who asks for it; undefined: the schedule itself. */
  readonly caller?: Caller | undefined;
  /** Key of the request for its one time; undefined: none. */
  readonly idempotency?: Idempotency | undefined;
}

/** Makes what a schedule is for, and records what became of its times, in one commit. */
@Injectable()
export class FiresService {
  constructor(
    private readonly journal: RunJournal,
    private readonly bodies: ScheduleBodies,
    private readonly metrics: ScheduleMetrics,
    private readonly scheduler: JobScheduler,
  ) {}

  /**
   * @returns what became of the times; null: the schedule has changed since it was read, nothing is changed
   * @throws JournalOverloaded, TooManyWaiting, database errors; nothing is changed then
   */
  async fire({
    schedule,
    kind,
    times,
    missed,
    left,
    pausing = null,
    open,
    advance,
    ...order
  }: FireOrder): Promise<readonly NewFire[] | null> {
    const { caller, replaced = [], idempotency } = order;
    const make = (at: Date) => this.bodies.make(schedule, at, caller);
    const plan = await planFires({ schedule, kind, times, missed, left, pausing, open, make });
    const { fires, creations, changes, groups: also, failedInRow, pausedNote } = plan;
    const { id: scheduleId, revision } = schedule;
    const triggeredBy = kind === 'trigger' ? (caller ?? null) : null;
    const record = {
      scheduleId,
      revision,
      fires,
      failedInRow,
      advance,
      pausedNote,
      replaced,
      triggeredBy,
      idempotency,
    };
    const batch = { ledger: SCHEDULE_LEDGER, record, also, creations, changes };
    if (!(await this.journal.carryOut(batch, caller ?? OWNER))) return null;
    this.metrics.fired(fires);
    this.scheduler.runWithin(AWAITED_TIMES, 0);
    if (also.length > 0) this.scheduler.runWithin(GROUP_MEMBERS, 0);
    return fires;
  }

  /** Accounts for the times of a schedule that are due and will not be fired. @param manager of the transaction that has locked it */
  async miss(manager: EntityManager, before: ScheduleEntity, now: Date, reason: string): Promise<void> {
    const { missed } = dueTimes(before, now, true);
    if (missed === null) return;
    const { id: scheduleId, revision, failedInRow } = before;
    const fires = [toMissedFire(missed, reason, 'schedule')];
    const unchanged = { failedInRow, advance: null, pausedNote: null, replaced: [], triggeredBy: null };
    const record = { scheduleId, revision, fires, ...unchanged };
    await SCHEDULE_LEDGER.write(manager, [{ record, changes: 0, refused: [] }], now);
    this.metrics.fired(fires);
  }
}

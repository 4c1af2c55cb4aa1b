import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/access.js';
import type { FireKind, ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import { GROUP_MEMBERS } from '../../groups/members/groups.job.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import type { Advance } from '../schedule-times.js';
import { ScheduleMetrics } from './schedule-metrics.js';
import { planFires, type OpenItem } from './plan-fires.js';
import { SCHEDULE_LEDGER, type NewFire } from './schedule-ledger.js';
import type { MissedTimes } from './due-times.js';
import { ScheduleBodies } from './schedule-bodies.js';

/** The owner of what schedules submit: they wait in turn with the requests of API keys. */
const OWNER = { id: 'schedules', scopes: new Set(['client'] as const) };

/** Times of a schedule to be fired. */
export interface FireOrder {
  readonly schedule: ScheduleEntity;
  readonly kind: FireKind;
  readonly times: readonly Date[];
  readonly missed: MissedTimes | null;
  readonly open: readonly OpenItem[];
  readonly advance: Advance | null;
  /** Why the schedule is paused instead of fired. */
  readonly pausing?: string | null;
  /** Outcomes of earlier fires of these times, which are replaced. */
  readonly replaced?: readonly NewFire['outcome'][];
  /** Who asks for it; undefined: the schedule itself. */
  readonly caller?: Caller | undefined;
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
    pausing = null,
    open,
    advance,
    ...order
  }: FireOrder): Promise<readonly NewFire[] | null> {
    const { caller, replaced = [] } = order;
    const make = (at: Date) => this.bodies.make(schedule, at, caller);
    const plan = await planFires({ schedule, kind, times, missed, pausing, open, make });
    const { fires, creations, changes, groups: also, failedInRow, pausedNote } = plan;
    const { id: scheduleId, revision } = schedule;
    const triggeredBy = kind === 'trigger' ? (caller ?? null) : null;
    const record = { scheduleId, revision, fires, failedInRow, advance, pausedNote, replaced, triggeredBy };
    const batch = { ledger: SCHEDULE_LEDGER, record, also, creations, changes };
    if (!(await this.journal.carryOut(batch, caller ?? OWNER))) return null;
    this.metrics.fired(fires);
    if (also.length > 0) this.scheduler.runWithin(GROUP_MEMBERS, 0);
    return fires;
  }
}

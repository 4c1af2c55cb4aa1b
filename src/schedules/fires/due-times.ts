import type { ScheduleEntity } from '../../database/entities/schedule.entity.js';
import { firstTime, jitterMs, justBefore, timetableOf, type Timing } from '../schedule-times.js';

/** So long after its time, in milliseconds, a run is still on time: a restart or a failover takes less. */
const ON_TIME_MS = 60_000;

/** Times that `all` makes up for, at most. */
const MAX_CAUGHT_UP = 100;

/** Times that passed and for which there are no runs. */
export interface MissedTimes {
  readonly from: Date;
  readonly until: Date;
  readonly count: number;
}

export interface DueTimes {
  /** Those to make runs for, in order. */
  readonly fired: readonly Date[];
  readonly missed: MissedTimes | null;
  /** The first time that is not due yet; null: there is none. */
  readonly nextAt: Date | null;
}

/** What the choice depends on. */
export type DueSchedule = Timing &
  Pick<ScheduleEntity, 'id' | 'nextAt' | 'startsAt' | 'endsAt' | 'jitterS' | 'catchUp' | 'windowS'>;

/**
 * The times that are due from `nextAt` on. Those of the last minute are on time, and each is fired; if earlier ones were not, `latest`
 * fires the newest of all, `none` only those that are on time, `all` the newest hundred, as far as they lie in the window.
 * Every time is either fired, part of the missed range, or not before the returned `nextAt`.
 * @param isPausing none is fired: all are missed, also those that jitter delays
 */
export function dueTimes(schedule: DueSchedule, now: Date, isPausing = false): DueTimes {
  const { nextAt: first, endsAt, catchUp, windowS } = schedule;
  const last = isPausing ? now : new Date(now.getTime() - jitterMs(schedule));
  if (first === null || first > last) return { fired: [], missed: null, nextAt: first };
  const timetable = timetableOf(schedule);
  const until = endsAt && endsAt < last ? endsAt : last;
  const before = justBefore(first);
  const onTimeAfter = laterOf(before, new Date(last.getTime() - ON_TIME_MS));
  const isLate = first <= onTimeAfter;
  const windowAfter = laterOf(before, new Date(last.getTime() - Math.max(windowS * 1000, ON_TIME_MS)));
  const chosen =
    !isLate || catchUp === 'none'
      ? timetable.range(onTimeAfter, until, MAX_CAUGHT_UP)
      : timetable.latest(windowAfter, until, catchUp === 'latest' ? 1 : MAX_CAUGHT_UP);
  const fired = isPausing ? [] : chosen;
  const nextAt = firstTime(schedule, last);
  const missedUntil = timetable.previous(fired[0] ?? new Date(until.getTime() + 1));
  if (missedUntil === null || missedUntil < first) return { fired, missed: null, nextAt };
  const count = timetable.count(before, missedUntil);
  return { fired, missed: { from: first, until: missedUntil, count }, nextAt };
}

function laterOf(a: Date, b: Date): Date {
  return a > b ? a : b;
}

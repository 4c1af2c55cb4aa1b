import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Facts } from '../definitions/templates/template-text.js';
import type { ScheduleEntity } from '../database/entities/schedule.entity.js';
import { compileTimes } from './times/compile-times.js';
import { formatNominal, localDate } from './times/nominal-time.js';
import type { Timetable } from './times/timetable.js';

/** The next time of a schedule, and when it is due; null: none will be. */
export type Advance = Pick<ScheduleEntity, 'nextAt' | 'dueAt'>;

/** What the times of a schedule depend on. */
export type Timing = Pick<ScheduleEntity, 'cron' | 'everyS' | 'offsetS' | 'timezone'>;

/** The times and their window. */
type Period = Timing & Pick<ScheduleEntity, 'startsAt' | 'endsAt'>;

const MAX_TIMETABLES = 10_000;

const compiled = new LRUCache<string, Timetable>({ max: MAX_TIMETABLES });

/** The times of a stored schedule. @throws RangeError if they are none */
export function timetableOf({ cron, everyS, offsetS, timezone }: Timing): Timetable {
  const key = JSON.stringify([cron, everyS, offsetS, timezone]);
  const known = compiled.get(key);
  if (known) return known;
  const timetable = compileTimes(
    everyS === null ? { cron: cron ?? [], timezone } : { every_s: everyS, offset_s: offsetS },
  );
  if ('problems' in timetable) throw new RangeError(timetable.problems.join('; '));
  compiled.set(key, timetable);
  return timetable;
}

/** The first time of the schedule after another one, within its period; null: there is none. */
export function firstTime(schedule: Period, after: Date): Date | null {
  const { startsAt, endsAt } = schedule;
  const from = startsAt && startsAt > after ? justBefore(startsAt) : after;
  const at = timetableOf(schedule).next(from);
  return at && endsAt && at > endsAt ? null : at;
}

/** Whether two have the same times, so that those that are due stay due. */
export function hasSameTimes(before: Period, after: Period): boolean {
  const timesOf = ({ cron, everyS, offsetS, timezone, startsAt, endsAt }: Period) =>
    JSON.stringify([cron, everyS, offsetS, timezone, startsAt, endsAt]);
  return timesOf(before) === timesOf(after);
}

/** The next times of the schedule, at most `limit`. */
export function nextTimes(
  schedule: Parameters<typeof firstTime>[0],
  from: Date | null,
  limit: number,
): Date[] {
  const times: Date[] = [];
  for (let at = from; at !== null && times.length < limit; at = firstTime(schedule, at)) times.push(at);
  return times;
}

/** What texts may refer to in a run for this time; a trigger's is not one of the schedule. */
export function factsOf(timing: Timing, at: Date): Facts {
  const timetable = timetableOf(timing);
  const shown = (time: Date | null): string | undefined =>
    time === null ? undefined : formatNominal(time, timing.timezone);
  const [previous, next] = [shown(timetable.previous(at)), shown(timetable.next(at))];
  return {
    'schedule.time': formatNominal(at, timing.timezone),
    'schedule.date': localDate(at, timing.timezone),
    ...(previous !== undefined && { 'schedule.previous': previous }),
    ...(next !== undefined && { 'schedule.next': next }),
  };
}

/** The last moment before a time. */
export function justBefore(time: Date): Date {
  return new Date(time.getTime() - 1);
}

/** Milliseconds by which the runs of the schedule are made later than their times. */
export function jitterMs({ id, jitterS }: Pick<ScheduleEntity, 'id' | 'jitterS'>): number {
  if (jitterS === 0) return 0;
  return (createHash('sha256').update(id).digest().readUInt32BE() % (jitterS + 1)) * 1000;
}

/** When a schedule is to be looked at whose next time this is. */
export function advanceTo(schedule: Parameters<typeof jitterMs>[0], nextAt: Date | null): Advance {
  return { nextAt, dueAt: nextAt && new Date(nextAt.getTime() + jitterMs(schedule)) };
}

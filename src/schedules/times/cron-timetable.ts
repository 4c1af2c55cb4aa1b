import type { CronFields } from './cron-fields.js';
import { DAY_MS, HOUR_MS, LocalMinutes, MINUTE_MS } from './local-minutes.js';
import type { OffsetPeriod, TimeZone } from './time-zone.js';
import { EARLIEST, LATEST, Timetable, type NominalNote } from './timetable.js';

/** A time fires less than this from the moment at which it would fire in UTC: an offset, and a gap of a day. */
const REACH = 3 * DAY_MS;

/** Local minutes that fire from `from` to before `to`, as local times. */
interface Stretch {
  readonly minutes: LocalMinutes;
  readonly from: number;
  readonly to: number;
}

/**
 * The times of cron expressions in a time zone, each time once, whichever expressions name it.
 *
 * An expression whose field of the hour is `*` follows real time: it fires at each real minute whose local date and minute
 * match. Local times that are skipped do not fire, those that are repeated fire again.
 *
 * Any other field of the hour, also a list, a range or a step such as every two hours, is a list of fixed local times:
 * - One that a change of the offset repeats fires at the first of its occurrences.
 * - One that a change skips fires at the first minute after the change that has the same minute of the hour. Its date is the
 *   one that was skipped: a whole day that a zone skips (Pacific/Apia, 30 December 2011) fires in the first hour of the
 *   next day, each minute once, if the expression includes the skipped day.
 */
export class CronTimetable extends Timetable {
  readonly #all: LocalMinutes;
  readonly #everyHour: LocalMinutes;
  readonly #fixed: LocalMinutes;

  constructor(
    expressions: readonly CronFields[],
    private readonly zone: TimeZone,
  ) {
    super();
    this.#all = new LocalMinutes(expressions);
    this.#everyHour = new LocalMinutes(expressions.filter(({ everyHour }) => everyHour));
    this.#fixed = new LocalMinutes(expressions.filter(({ everyHour }) => !everyHour));
  }

  next(after: Date): Date | null {
    let from = Math.max(after.getTime() + 1, EARLIEST);
    for (;;) {
      const local = this.#all.first(from - REACH, LATEST);
      from = local === null ? LATEST : Math.max(from, local - REACH);
      if (from >= LATEST) return null;
      const period = this.zone.periodAt(from);
      const time = Math.min(...this.#ends(period, from, Math.min(period.end, LATEST), 'first'));
      if (time < Infinity) return new Date(time);
      from = period.end;
    }
  }

  previous(before: Date): Date | null {
    let to = Math.min(before.getTime(), LATEST);
    for (;;) {
      const local = this.#all.last(EARLIEST, to + REACH);
      to = local === null ? EARLIEST : Math.min(to, local + REACH);
      if (to <= EARLIEST) return null;
      const period = this.zone.periodAt(to - 1);
      const time = Math.max(...this.#ends(period, Math.max(period.start, EARLIEST), to, 'last'));
      if (time > -Infinity) return new Date(time);
      to = period.start;
    }
  }

  count(after: Date, until: Date): number {
    const to = Math.min(until.getTime() + 1, LATEST);
    let from = Math.max(after.getTime() + 1, EARLIEST);
    let count = 0;
    while (from < to) {
      const period = this.zone.periodAt(from);
      const end = Math.min(to, period.end);
      for (const stretch of this.#stretches(period, from, end))
        count += stretch.minutes.count(stretch.from, stretch.to);
      count += this.#moved(period, from, end).filter((time) => !this.#all.has(time + period.offset)).length;
      from = end;
    }
    return count;
  }

  noteOf(at: Date): NominalNote | null {
    const time = at.getTime();
    const period = this.zone.periodAt(time);
    if (this.#moved(period, time, time + 1).length > 0) return 'skipped_hour';
    const local = time + period.offset;
    const later = this.zone.offsetAt(time + DAY_MS);
    const isRepeated = later < period.offset && this.zone.offsetAt(local - later) === later;
    return isRepeated && this.#fixed.has(local) ? 'repeated_hour' : null;
  }

  /** The first or the last time of each kind from `from` to before `to`, which are in the period. */
  #ends(period: OffsetPeriod, from: number, to: number, which: 'first' | 'last'): number[] {
    const times = this.#moved(period, from, to);
    for (const stretch of this.#stretches(period, from, to)) {
      const local = stretch.minutes[which](stretch.from, stretch.to);
      if (local !== null) times.push(local - period.offset);
    }
    return times;
  }

  /** The local minutes that fire from `from` to before `to`: those of every hour alone while local times are repeated. */
  #stretches({ offset, before, changedAt }: OffsetPeriod, from: number, to: number): Stretch[] {
    const passed = changedAt + before;
    return [
      { minutes: this.#everyHour, from: from + offset, to: Math.min(to + offset, passed) },
      { minutes: this.#all, from: Math.max(from + offset, passed), to: to + offset },
    ];
  }

  /** The times from `from` to before `to` that replace local times which the last change of the offset skipped. */
  #moved({ offset, before, changedAt }: OffsetPeriod, from: number, to: number): number[] {
    if (offset <= before || from >= changedAt + HOUR_MS) return [];
    const reopened = changedAt + offset;
    const times = new Set<number>();
    let skipped = this.#fixed.first(changedAt + before, reopened);
    while (skipped !== null) {
      const replacement = Math.floor(reopened / HOUR_MS) * HOUR_MS + (skipped % HOUR_MS);
      times.add((replacement < reopened ? replacement + HOUR_MS : replacement) - offset);
      skipped = this.#fixed.first(skipped + MINUTE_MS, reopened);
    }
    return [...times].filter((time) => time >= from && time < to);
  }
}

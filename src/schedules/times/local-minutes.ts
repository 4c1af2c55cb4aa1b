import type { CronFields } from './cron-fields.js';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
const MINUTES_PER_DAY = 1_440;

/**
 * The minutes that cron expressions name, in a calendar without a time zone. A local time is given as the milliseconds
 * that it would have since the epoch in UTC. Intervals contain `from` and not `to`.
 */
export class LocalMinutes {
  /** Minutes of a day by the expressions that apply to it, as bits. */
  readonly #ofDays = new Map<number, Int16Array>();

  constructor(private readonly expressions: readonly CronFields[]) {}

  /** The first of them in an interval. */
  first(from: number, to: number): number | null {
    if (this.expressions.length === 0 || from >= to) return null;
    const start = Math.ceil(from / MINUTE_MS);
    const firstDay = Math.floor(start / MINUTES_PER_DAY);
    for (let day = firstDay; day * DAY_MS < to; day = this.#nextDay(day)) {
      const minutes = this.#minutesOn(day);
      const minute =
        day === firstDay ? minutes.find((at) => day * MINUTES_PER_DAY + at >= start) : minutes[0];
      if (minute === undefined) continue;
      const found = day * DAY_MS + minute * MINUTE_MS;
      return found < to ? found : null;
    }
    return null;
  }

  /** The last of them in an interval. */
  last(from: number, to: number): number | null {
    if (this.expressions.length === 0 || from >= to) return null;
    const end = Math.ceil(to / MINUTE_MS) - 1;
    const lastDay = Math.floor(end / MINUTES_PER_DAY);
    for (let day = lastDay; (day + 1) * DAY_MS > from; day = this.#previousDay(day)) {
      const minutes = this.#minutesOn(day);
      const minute =
        day === lastDay ? minutes.findLast((at) => day * MINUTES_PER_DAY + at <= end) : minutes.at(-1);
      if (minute === undefined) continue;
      const found = day * DAY_MS + minute * MINUTE_MS;
      return found >= from ? found : null;
    }
    return null;
  }

  /** How many of them are in an interval. */
  count(from: number, to: number): number {
    if (this.expressions.length === 0 || from >= to) return 0;
    let count = 0;
    for (let day = Math.floor(from / DAY_MS); day * DAY_MS < to; day += 1) {
      const minutes = this.#minutesOn(day);
      const low = from - day * DAY_MS;
      const high = to - day * DAY_MS;
      count +=
        low <= 0 && high >= DAY_MS
          ? minutes.length
          : minutes.filter((at) => at * MINUTE_MS >= low && at * MINUTE_MS < high).length;
    }
    return count;
  }

  /** Whether a local time is one of them. */
  has(local: number): boolean {
    return this.first(local, local + 1) !== null;
  }

  #minutesOn(day: number): Int16Array {
    const date = new Date(day * DAY_MS);
    let applying = 0;
    for (const [index, expression] of this.expressions.entries()) {
      if (includesDay(expression, date)) applying |= 1 << index;
    }
    let minutes = this.#ofDays.get(applying);
    if (minutes === undefined) {
      const those = this.expressions.filter((_, index) => (applying & (1 << index)) !== 0);
      const all = those.flatMap((each) =>
        each.hours.flatMap((hour) => each.minutes.map((at) => hour * 60 + at)),
      );
      minutes = Int16Array.from(new Set(all)).toSorted();
      this.#ofDays.set(applying, minutes);
    }
    return minutes;
  }

  /** The day after, or the first of the next month if the month of that day is in no expression. */
  #nextDay(day: number): number {
    const date = new Date((day + 1) * DAY_MS);
    if (this.#isMonthUsed(date)) return day + 1;
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) / DAY_MS;
  }

  #previousDay(day: number): number {
    const date = new Date((day - 1) * DAY_MS);
    if (this.#isMonthUsed(date)) return day - 1;
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 0) / DAY_MS;
  }

  #isMonthUsed(date: Date): boolean {
    return this.expressions.some(({ months }) => months.has(date.getUTCMonth() + 1));
  }
}

function includesDay({ months, daysOfMonth, daysOfWeek }: CronFields, date: Date): boolean {
  if (!months.has(date.getUTCMonth() + 1)) return false;
  if (daysOfMonth === null) return daysOfWeek?.has(date.getUTCDay()) ?? true;
  return daysOfMonth.has(date.getUTCDate()) || (daysOfWeek?.has(date.getUTCDay()) ?? false);
}

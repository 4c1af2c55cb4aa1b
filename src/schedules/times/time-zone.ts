import { LRUCache } from 'lru-cache';
import { DAY_MS, MINUTE_MS } from './local-minutes.js';

/** A period without a change of the offset, at most one UTC year: from `start` to before `end`, in ms since the epoch. */
export interface OffsetPeriod {
  readonly start: number;
  readonly end: number;
  /** Local time minus UTC, in ms. */
  readonly offset: number;
  /** The offset before the last change, which was at `changedAt`; `offset` if that was more than a day before `start`. */
  readonly before: number;
  readonly changedAt: number;
}

const MAX_ZONES = 100;
const MAX_YEARS = 300;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

/** The offsets of a time zone of Intl. The changes of a year are looked for when they are first needed, and kept. */
export class TimeZone {
  static readonly #zones = new LRUCache<string, TimeZone>({ max: MAX_ZONES });
  readonly #format: Intl.DateTimeFormat;
  readonly #years = new LRUCache<number, readonly OffsetPeriod[]>({ max: MAX_YEARS });

  private constructor(name: string) {
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
  }

  /** The zone of a name of the IANA database; null if Intl does not know it. */
  static find(name: string): TimeZone | null {
    let zone = TimeZone.#zones.get(name);
    if (zone !== undefined) return zone;
    // Newer versions of Intl also take offsets.
    if (!/^[a-z]/i.test(name)) return null;
    try {
      zone = new TimeZone(name);
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
    TimeZone.#zones.set(name, zone);
    return zone;
  }

  /** The period that contains a time. */
  periodAt(instant: number): OffsetPeriod {
    const year = new Date(instant).getUTCFullYear();
    let periods = this.#years.get(year);
    if (periods === undefined) {
      periods = this.#findPeriods(Date.UTC(year, 0), Date.UTC(year + 1, 0));
      this.#years.set(year, periods);
    }
    const period = periods.find(({ end }) => instant < end);
    if (period === undefined) throw new RangeError(`no offset at ${instant}`);
    return period;
  }

  /** Local time minus UTC at a time, in ms. */
  offsetAt(instant: number): number {
    return this.periodAt(instant).offset;
  }

  #findPeriods(start: number, end: number): OffsetPeriod[] {
    const periods: OffsetPeriod[] = [];
    // The day before shows a change whose gap or repeated time reaches into the year.
    let changedAt = start - DAY_MS;
    let before = this.#readOffset(changedAt);
    let offset = before;
    for (let day = start; day <= end; day += DAY_MS) {
      while (this.#readOffset(day) !== offset) {
        const change = this.#findChange(day - DAY_MS, day, offset, changedAt);
        if (change > start)
          periods.push({ start: Math.max(start, changedAt), end: change, offset, before, changedAt });
        changedAt = change;
        before = offset;
        offset = this.#readOffset(change);
      }
    }
    if (changedAt < end) periods.push({ start: Math.max(start, changedAt), end, offset, before, changedAt });
    return periods;
  }

  /** The first second with another offset than `offset`, of which there is one after `low` and not after `high`. */
  #findChange(low: number, high: number, offset: number, changedAt: number): number {
    let same = Math.max(low, changedAt);
    let other = high;
    while (other - same > 1_000) {
      const middle = Math.floor((same + other) / 2_000) * 1_000;
      if (this.#readOffset(middle) === offset) same = middle;
      else other = middle;
    }
    return other;
  }

  #readOffset(instant: number): number {
    const [, sign, hours, minutes, seconds] = OFFSET.exec(this.#format.format(instant)) ?? [];
    if (sign === undefined) return 0;
    const size = (Number(hours) * 60 + Number(minutes)) * MINUTE_MS + Number(seconds ?? 0) * 1_000;
    return sign === '-' ? -size : size;
  }
}

/** Nominal times lie from the year 1900 to 9999, whose dates have four digits. */
export const EARLIEST = Date.UTC(1900, 0);
export const LATEST = Date.UTC(9999, 11, 31);

/**
 * Why a nominal time is not the plain reading of the expression. `skipped_hour`: it replaces a local time that does not
 * exist on that day. `repeated_hour`: the local time comes twice, and this is the first of them, at which alone it fires.
 */
export type NominalNote = 'skipped_hour' | 'repeated_hour';

/** The nominal times of a schedule. They depend on the schedule alone, never on the present time. */
export abstract class Timetable {
  /** The first nominal time after a time; null if there is none before the year 10000. */
  abstract next(after: Date): Date | null;

  /** The last nominal time before a time; null if there is none since 1900. */
  abstract previous(before: Date): Date | null;

  /** How many nominal times are after `after` and not after `until`. */
  abstract count(after: Date, until: Date): number;

  /** The note of a nominal time; null for another time. */
  abstract noteOf(at: Date): NominalNote | null;

  /** The first `limit` nominal times after `after` and not after `until`, in ascending order. */
  range(after: Date, until: Date, limit: number): Date[] {
    const times: Date[] = [];
    let time = this.next(after);
    while (time !== null && time <= until && times.length < limit) {
      times.push(time);
      time = this.next(time);
    }
    return times;
  }

  /** The last `limit` nominal times after `after` and not after `until`, in ascending order. */
  latest(after: Date, until: Date, limit: number): Date[] {
    const times: Date[] = [];
    let time = this.previous(new Date(until.getTime() + 1));
    while (time !== null && time > after && times.length < limit) {
      times.push(time);
      time = this.previous(time);
    }
    return times.toReversed();
  }
}

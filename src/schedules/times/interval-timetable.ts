import { EARLIEST, LATEST, Timetable, type NominalNote } from './timetable.js';

/** Every `every` ms, counted from the epoch plus `offset`. */
export class IntervalTimetable extends Timetable {
  constructor(
    private readonly every: number,
    private readonly offset: number,
  ) {
    super();
  }

  next(after: Date): Date | null {
    const time = this.#lastUntil(Math.max(after.getTime(), EARLIEST - 1)) + this.every;
    return time < LATEST ? new Date(time) : null;
  }

  previous(before: Date): Date | null {
    const time = this.#lastUntil(Math.min(before.getTime(), LATEST) - 1);
    return time >= EARLIEST ? new Date(time) : null;
  }

  count(after: Date, until: Date): number {
    const first = this.#lastUntil(Math.max(after.getTime(), EARLIEST - 1));
    const last = this.#lastUntil(Math.min(until.getTime(), LATEST - 1));
    return Math.max(0, (last - first) / this.every);
  }

  noteOf(): NominalNote | null {
    return null;
  }

  /** The last time that is not after `instant`. */
  #lastUntil(instant: number): number {
    return Math.floor((instant - this.offset) / this.every) * this.every + this.offset;
  }
}

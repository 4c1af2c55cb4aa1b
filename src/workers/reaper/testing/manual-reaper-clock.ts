import { ReaperClock, type Moment } from '../grace-period.js';

/** Clocks that a test sets. */
export class ManualReaperClock extends ReaperClock {
  #steady = 5_000;
  #wall: number;

  /** @param wall epoch milliseconds */
  constructor(wall = Date.UTC(2026, 0, 1)) {
    super();
    this.#wall = wall;
  }

  override now(): Moment {
    return { steady: this.#steady, wall: this.#wall };
  }

  /** Both clocks go on. @param ms milliseconds */
  advance(ms: number): void {
    this.#steady += ms;
    this.#wall += ms;
  }

  /** The wall clock is set, or the machine was suspended while the steady clock stood still. @param ms milliseconds */
  jump(ms: number): void {
    this.#wall += ms;
  }
}

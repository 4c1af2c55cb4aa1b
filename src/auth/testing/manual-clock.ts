import { MonotonicClock } from '../monotonic-clock.js';

/** A clock that a test sets. */
export class ManualClock extends MonotonicClock {
  #now = 1_000_000;

  override now(): number {
    return this.#now;
  }

  /** @param ms milliseconds */
  advance(ms: number): void {
    this.#now += ms;
  }
}

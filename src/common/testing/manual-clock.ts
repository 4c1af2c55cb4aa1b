import { Clock } from '../clock.js';

/** Clocks that a test sets. */
export class ManualClock extends Clock {
  #now = 1_000_000;
  #epochMs: number;

  constructor(epochMs = Date.UTC(2026, 0, 1)) {
    super();
    this.#epochMs = epochMs;
  }

  override now(): number {
    return this.#now;
  }

  override epochMs(): number {
    return this.#epochMs;
  }

  /** Both clocks go on. @param ms milliseconds */
  advance(ms: number): void {
    this.#now += ms;
    this.#epochMs += ms;
  }

  /** The epoch's clock is set, or the machine was suspended while the monotonic clock stood still. @param ms milliseconds */
  jump(ms: number): void {
    this.#epochMs += ms;
  }
}

/** How often the two clocks are compared, in milliseconds. */
const COMPARE_EVERY_MS = 60_000;

/**
 * The time of spans: that of the system, with the resolution and the even pace of `performance.now()`, so that parts of
 * one piece of work never seem to lie outside of it.
 */
export class SpanClock {
  #offset = 0;
  #comparedAt = -Infinity;

  /** Milliseconds since 1970 of a time of `performance.now()`, the present one unless given. */
  at(monotonic: number = performance.now()): number {
    const now = performance.now();
    if (now - this.#comparedAt > COMPARE_EVERY_MS) {
      this.#offset = Date.now() - now;
      this.#comparedAt = now;
    }
    return this.#offset + monotonic;
  }
}

/** Ends of waits are rounded down to a multiple of this, in milliseconds. */
export const STEP_MS = 250;

/** Waits that end at the same time. */
interface Step {
  readonly timer: NodeJS.Timeout;
  readonly ends: Set<() => void>;
}

/**
 * Timeouts of waits that may end up to STEP_MS early. Those that end within one step share a timer: a process with
 * thousands of waiting requests wakes up a few times a second, and handles the responses and the next requests of many
 * clients at once, which costs a fraction of the CPU.
 */
export class LongWaits {
  readonly #steps = new Map<number, Step>();

  /** Calls `end` after at most so many milliseconds. @returns how to cancel that */
  endWithin(ms: number, end: () => void): () => void {
    const now = performance.now();
    const at = Math.floor((now + ms) / STEP_MS);
    let step = this.#steps.get(at);
    if (step === undefined) {
      const timer = setTimeout(() => this.#end(at), Math.max(0, at * STEP_MS - now));
      step = { timer, ends: new Set() };
      this.#steps.set(at, step);
    }
    const { timer, ends } = step;
    ends.add(end);
    return () => {
      if (!ends.delete(end) || ends.size > 0 || this.#steps.get(at)?.ends !== ends) return;
      clearTimeout(timer);
      this.#steps.delete(at);
    };
  }

  #end(at: number): void {
    const step = this.#steps.get(at);
    this.#steps.delete(at);
    for (const end of step?.ends ?? []) end();
  }
}

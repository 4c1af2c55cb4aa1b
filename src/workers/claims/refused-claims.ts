import { Injectable } from '@nestjs/common';

/** Longest time for which a claim is held whose worker may not have work, in milliseconds. */
const LONGEST_MS = 10_000;

/**
 * Claims that wait although their worker may not have work now: it is unknown, silent or draining. They are not among
 * those that a run wakes; they try again when their worker is heard of, or let claim again, in this process.
 */
@Injectable()
export class RefusedClaims {
  readonly #waiting = new Map<string, Set<() => void>>();

  /**
   * Holds a claim of the worker.
   * @param forMs longest wait in milliseconds; ten seconds at most
   * @returns true when there is a reason to try again
   */
  hold(workerId: string, forMs: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    const held = this.#waiting.get(workerId) ?? new Set();
    this.#waiting.set(workerId, held);
    return new Promise((resolve) => {
      const settle = (again: boolean): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        held.delete(tryAgain);
        if (held.size === 0) this.#waiting.delete(workerId);
        resolve(again);
      };
      const giveUp = (): void => settle(false);
      const tryAgain = (): void => settle(true);
      const timer = setTimeout(giveUp, Math.min(forMs, LONGEST_MS));
      signal.addEventListener('abort', giveUp);
      held.add(tryAgain);
    });
  }

  /** Has the worker's claims try again. */
  wake(workerId: string): void {
    for (const tryAgain of this.#waiting.get(workerId) ?? []) tryAgain();
  }
}

import { Injectable } from '@nestjs/common';
import { untilWoken } from '../../common/notifications/until-woken.js';

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
  async hold(workerId: string, forMs: number, signal: AbortSignal): Promise<boolean> {
    const again = await untilWoken<true>({ signal, forMs: Math.min(forMs, LONGEST_MS) }, (wake) => {
      const tryAgain = (): void => wake(true);
      const held = this.#waiting.get(workerId) ?? new Set();
      this.#waiting.set(workerId, held.add(tryAgain));
      return () => {
        held.delete(tryAgain);
        if (held.size === 0) this.#waiting.delete(workerId);
      };
    });
    return again !== null;
  }

  /** Has the worker's claims try again. */
  wake(workerId: string): void {
    for (const tryAgain of this.#waiting.get(workerId) ?? []) tryAgain();
  }
}

import type { Run } from '../machine/run.js';
import type { RestrictedRun } from '../queue/restricted-runs.js';

/** Counts the runs in execution of each key while a claim chooses runs: a run may be taken while its limit has room. */
export class KeyRoom {
  readonly #executing = new Map<string, number>();
  /** Keys that the transaction holds: their numbers are exact. */
  readonly #locked = new Set<string>();

  /** A copy for an attempt: taking runs from it leaves this one as it is. */
  copy(): KeyRoom {
    const copy = new KeyRoom();
    for (const [key, executing] of this.#executing) copy.#executing.set(key, executing);
    return copy;
  }

  /** Takes over what was read without locks. */
  see(listed: readonly RestrictedRun[]): void {
    for (const { concurrencyKey: key, executing } of listed) {
      if (key !== null && executing !== null && !this.#locked.has(key)) this.#executing.set(key, executing);
    }
  }

  /** Takes over what was read under a lock. */
  lock(locked: ReadonlyMap<string, number>): void {
    for (const [key, executing] of locked) {
      this.#executing.set(key, executing);
      this.#locked.add(key);
    }
  }

  isLocked(key: string): boolean {
    return this.#locked.has(key);
  }

  has({ concurrencyKey: key, concurrencyLimit: limit }: Run): boolean {
    return key === null || limit === null || (this.#executing.get(key) ?? 0) < limit;
  }

  /** Counts the run as in execution. @returns false: its key is full */
  take(run: Run): boolean {
    if (!this.has(run)) return false;
    this.#add(run, 1);
    return true;
  }

  release(run: Run): void {
    this.#add(run, -1);
  }

  #add({ concurrencyKey: key }: Run, runs: number): void {
    if (key !== null) this.#executing.set(key, (this.#executing.get(key) ?? 0) + runs);
  }
}

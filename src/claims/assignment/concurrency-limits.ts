import type { Run } from '../../runs/machine/run.js';
import type { CandidateRun } from '../../runs/queue/lane-heads.js';

/** Counts the runs in execution of each key while a claim chooses runs: a run may be taken while its key is below the limit. */
export class ConcurrencyLimits {
  readonly #executing = new Map<string, number>();
  /** Keys that the transaction holds: their numbers are exact. */
  readonly #locked = new Set<string>();

  /** A copy for an attempt: taking runs from it leaves this one as it is. */
  copy(): ConcurrencyLimits {
    const copy = new ConcurrencyLimits();
    for (const [key, executing] of this.#executing) copy.#executing.set(key, executing);
    return copy;
  }

  /** Adds counts that were read without locks. */
  addCounts(listed: readonly CandidateRun[]): void {
    for (const { concurrencyKey: key, executing } of listed) {
      if (key !== null && executing !== null && !this.#locked.has(key)) this.#executing.set(key, executing);
    }
  }

  /** Sets counts that were read under a lock. */
  setLockedCounts(locked: ReadonlyMap<string, number>): void {
    for (const [key, executing] of locked) {
      this.#executing.set(key, executing);
      this.#locked.add(key);
    }
  }

  isLocked(key: string): boolean {
    return this.#locked.has(key);
  }

  isBelowLimit({ concurrencyKey: key, concurrencyLimit: limit }: Run): boolean {
    return key === null || limit === null || (this.#executing.get(key) ?? 0) < limit;
  }

  /** Counts the run as in execution. @returns false if its key is at the limit */
  tryAcquire(run: Run): boolean {
    if (!this.isBelowLimit(run)) return false;
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

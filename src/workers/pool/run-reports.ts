/** Departed runs that are kept for a worker; with more, its reports are ignored. */
export const MAX_DEPARTED = 5000;

/** The runs in a worker's reports during the last worker timeout. */
export class RunReports {
  #last: number | undefined;
  #previous: number | undefined;
  #running: ReadonlySet<string> = new Set();
  /** Runs missing in the newest report, with the time of the last report with them, ordered by it. */
  readonly #departed = new Map<string, number>();
  /** Time of the newest report of which runs were dropped. */
  #droppedAt: number | undefined;

  /**
   * @param at epoch milliseconds
   * @param from start of the worker timeout
   */
  add(runIds: readonly string[], at: number, from: number): void {
    const running = new Set(runIds);
    for (const id of this.#running) {
      if (running.has(id) || this.#last === undefined) continue;
      this.#departed.delete(id);
      this.#departed.set(id, this.#last);
    }
    for (const id of running) this.#departed.delete(id);
    for (const [id, time] of this.#departed) {
      if (time >= from) break;
      this.#departed.delete(id);
    }
    if (this.#departed.size > MAX_DEPARTED) {
      this.#departed.clear();
      this.#droppedAt = this.#last;
    }
    this.#running = running;
    this.#previous = this.#last;
    this.#last = at;
  }

  /** Ids that are kept. */
  get size(): number {
    return this.#running.size + this.#departed.size;
  }

  /** Forgets the ids; until the worker timeout is over, no run counts as missing in the reports. */
  drop(): void {
    this.#running = new Set();
    this.#departed.clear();
    this.#droppedAt = this.#last;
  }

  /** Whether there were at least two reports since the time, none with the run. */
  areWithout(runId: string, from: number): boolean {
    if (this.#previous === undefined || this.#previous < from) return false;
    if (this.#droppedAt !== undefined && this.#droppedAt >= from) return false;
    const departedAt = this.#departed.get(runId);
    return !this.#running.has(runId) && (departedAt === undefined || departedAt < from);
  }
}

/** Runs kept by which a worker's reports are remembered after it named them last; more make its reports unclear. */
export const MAX_DEPARTED = 5000;

/** Which runs a worker has named in its reports of running runs, as far back as the last worker timeout. */
export class RunReports {
  #last: number | undefined;
  #previous: number | undefined;
  #running: ReadonlySet<string> = new Set();
  /** Runs that the newest report did not name any more, by the time of the last one that did; in order of time. */
  readonly #departed = new Map<string, number>();
  /** Time of the newest report of which something was dropped. */
  #unclearAt: number | undefined;

  /**
   * Takes note of a report.
   * @param at epoch milliseconds
   * @param from reports before this time matter no more
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
      this.#unclearAt = this.#last;
    }
    this.#running = running;
    this.#previous = this.#last;
    this.#last = at;
  }

  /** Whether there were at least two reports since the time and the run was in none of them. */
  areWithout(runId: string, from: number): boolean {
    if (this.#previous === undefined || this.#previous < from) return false;
    if (this.#unclearAt !== undefined && this.#unclearAt >= from) return false;
    const departedAt = this.#departed.get(runId);
    return !this.#running.has(runId) && (departedAt === undefined || departedAt < from);
  }
}

import { untilWoken } from '../../common/waits/until-woken.js';
import type { LostRun, ReportedRun } from '../../runs/storage/held-run.repository.js';

/** Statements that may be under way at the same time. */
const CONCURRENT_STATEMENTS = 2;

/** Runs that one statement reads, or those of one report with more. */
const MAX_RUNS = 1_000;

/** Timeout of a query, in milliseconds; it then finds nothing. */
const TIMEOUT_MS = 2_000;

export type Report = readonly ReportedRun[];

interface PendingQuery {
  readonly report: Report;
  readonly end: (lost: readonly LostRun[] | null) => void;
}

/**
 * Finds which reported runs are lost. Queries of one turn of the event loop share a statement, which begins after them;
 * while two statements are under way, further queries wait. One that times out or is aborted leaves the queue.
 */
export class LostRunQueries {
  /** The oldest first. */
  readonly #waiting = new Set<PendingQuery>();
  #free = CONCURRENT_STATEMENTS;

  /** @param read the lost runs of each report */
  constructor(
    private readonly read: (reports: readonly Report[]) => Promise<ReadonlyMap<Report, readonly LostRun[]>>,
  ) {}

  /** Those of the runs that are lost now; null: not known, as the database is unavailable or slow. */
  find(report: Report, signal: AbortSignal): Promise<readonly LostRun[] | null> {
    return untilWoken<readonly LostRun[] | null>({ signal, forMs: TIMEOUT_MS }, (end) => {
      const query = { report, end };
      this.#waiting.add(query);
      if (this.#free > 0) {
        this.#free -= 1;
        // Runs after the requests that arrived in the same turn.
        setImmediate(() => void this.#readWaiting());
      }
      return () => void this.#waiting.delete(query);
    });
  }

  async #readWaiting(): Promise<void> {
    for (let queries = this.#take(); queries.length > 0; queries = this.#take()) {
      const found = await this.read(queries.map(({ report }) => report)).catch(() => null);
      for (const { report, end } of queries) end(found?.get(report) ?? null);
    }
    this.#free += 1;
  }

  /** Takes the queries of the next statement out of the queue. */
  #take(): readonly PendingQuery[] {
    const taken: PendingQuery[] = [];
    let runs = 0;
    for (const query of this.#waiting) {
      runs += query.report.length;
      if (taken.length > 0 && runs > MAX_RUNS) break;
      taken.push(query);
    }
    for (const query of taken) this.#waiting.delete(query);
    return taken;
  }
}

import { untilWoken } from '../../common/notifications/until-woken.js';
import type { LostRun, ReportedRun } from '../../runs/storage/held-run.repository.js';

/** Statements that may be under way at the same time. */
const CONCURRENT_STATEMENTS = 2;

/** Runs that one statement looks at, or those of one report with more. */
const MAX_RUNS = 1_000;

/** A look that takes longer than this, in milliseconds, finds nothing. */
const LIMIT_MS = 2_000;

export type Report = readonly ReportedRun[];

interface Look {
  readonly report: Report;
  readonly end: (lost: readonly LostRun[] | null) => void;
}

/**
 * Looks which reported runs are lost. Looks of the same turn of the event loop share a statement, which begins after them;
 * while two statements are under way, further looks wait. One that is over its time or aborted does not stay in the queue.
 */
export class LostRunLooks {
  /** The oldest first. */
  readonly #waiting = new Set<Look>();
  #free = CONCURRENT_STATEMENTS;

  /** @param read the lost runs of each report */
  constructor(
    private readonly read: (reports: readonly Report[]) => Promise<ReadonlyMap<Report, readonly LostRun[]>>,
  ) {}

  /** Those of the runs that are lost now; null: not known, as the database is unavailable or slow. */
  find(report: Report, signal: AbortSignal): Promise<readonly LostRun[] | null> {
    return untilWoken<readonly LostRun[] | null>({ signal, forMs: LIMIT_MS }, (end) => {
      const look = { report, end };
      this.#waiting.add(look);
      if (this.#free > 0) {
        this.#free -= 1;
        // Runs after the requests that arrived in the same turn.
        setImmediate(() => void this.#readWaiting());
      }
      return () => void this.#waiting.delete(look);
    });
  }

  async #readWaiting(): Promise<void> {
    for (let looks = this.#take(); looks.length > 0; looks = this.#take()) {
      const found = await this.read(looks.map(({ report }) => report)).catch(() => null);
      for (const { report, end } of looks) end(found?.get(report) ?? null);
    }
    this.#free += 1;
  }

  /** Takes the looks of the next statement out of the queue. */
  #take(): readonly Look[] {
    const taken: Look[] = [];
    let runs = 0;
    for (const look of this.#waiting) {
      runs += look.report.length;
      if (taken.length > 0 && runs > MAX_RUNS) break;
      taken.push(look);
    }
    for (const look of taken) this.#waiting.delete(look);
    return taken;
  }
}

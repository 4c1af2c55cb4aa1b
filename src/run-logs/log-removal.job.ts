import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { inBatches } from '../database/in-batches.js';
import { LogMetrics } from './log-metrics.js';
import { LogRemovalRepository } from './log-removal.repository.js';

/** Milliseconds after which no chunk can be under way any more that saw the run before it was removed. */
export const SETTLED_MS = 60_000;

/** Rows removed by one statement at most. */
export const ROWS_PER_BATCH = 500;

/** Removes the logs of runs that were removed; a trigger on `runs` notes which. */
@Injectable()
export class LogRemovalJob {
  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: LogRemovalRepository,
    private readonly metrics: LogMetrics,
  ) {}

  /**
   * One pass, in batches that are each a short statement. Any number of processes may run it at once.
   * @param now the database's time
   * @param stop ends the pass between two batches
   * @returns of how many runs the logs were removed
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const before = new Date(now.getTime() - SETTLED_MS);
    let runs = 0;
    for (;;) {
      await inBatches(ROWS_PER_BATCH, stop, () =>
        this.repository.removeRows(this.dataSource, before, ROWS_PER_BATCH),
      );
      if (stop?.aborted === true) return runs;
      const finished = await this.repository.finish(this.dataSource, before);
      if (finished === 0) return runs;
      runs += finished;
      this.metrics.removedRuns.inc(finished);
    }
  }
}

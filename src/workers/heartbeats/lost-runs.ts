import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { WaitEnds } from '../../common/waits/until-woken.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import type { Topics } from '../../database/notices/topics.js';
import { HeldRunRepository, type LostRun } from '../../runs/storage/held-run.repository.js';
import { LostRunQueries, type Report } from './lost-run-queries.js';

/** Pause after a query that failed, in milliseconds. */
const RETRY_MS = 500;

/**
 * Finds the runs that workers report and do not hold any more. The commit that takes a run from a worker notifies every process.
 */
@Injectable()
export class LostRuns {
  readonly #queries: LostRunQueries;
  /** By worker. */
  readonly #losses: Topics;

  constructor(heldRuns: HeldRunRepository, dataSource: DataSource, notices: CommitNotices) {
    this.#losses = notices.topicsOf('freedWorkers');
    this.#queries = new LostRunQueries((reports) => heldRuns.findLost(dataSource, reports));
  }

  /** Those of the runs that are lost now; null: not known, as the database is unavailable or slow. */
  async find(report: Report, signal: AbortSignal): Promise<readonly LostRun[] | null> {
    return report.length === 0 ? [] : await this.#queries.find(report, signal);
  }

  /** Waits until the worker loses one of the runs. After the timeout or an abort, what the last look has found. */
  async wait(
    workerId: string,
    report: Report,
    { signal, forMs }: Required<WaitEnds>,
  ): Promise<readonly LostRun[] | null> {
    const endsAt = performance.now() + forMs;
    const losses = this.#losses.subscribe(workerId);
    try {
      for (;;) {
        const { version } = losses;
        const lost = await this.find(report, signal);
        if (lost !== null && lost.length > 0) return lost;
        const leftMs = endsAt - performance.now();
        if (leftMs <= 0 || signal.aborted) return lost;
        const ends = { signal, forMs: lost === null ? Math.min(leftMs, RETRY_MS) : leftMs };
        const isWoken = await losses.waitForChange(0, version, ends);
        // The next heartbeat queries again.
        if (!isWoken && (signal.aborted || performance.now() >= endsAt)) return lost;
      }
    } finally {
      this.#losses.unsubscribe(losses);
    }
  }
}

import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { RunCountsRepository, type RunCounts } from '../../runs/counts/run-counts.repository.js';
import { SHOWN_MINUTES } from '../../runs/counts/run-counts.roll-up.js';
import { WorkersService } from '../workers.service.js';
import { summariseWorkers, type WorkersSummary } from './workers-summary.js';

/** How things stand. */
export interface Overview {
  readonly runs: RunCounts;
  /** When the oldest pending run was created; null when none is pending. */
  readonly oldestPendingAt: Date | null;
  readonly workers: WorkersSummary;
}

/** Tells how things stand, at a cost that does not grow with the runs there have been. */
@Injectable()
export class OverviewService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly workers: WorkersService,
  ) {}

  /** Counts, age of the queue and workers as they are now; the three are read one after the other. */
  async read(): Promise<Overview> {
    const runs = await this.counts.read(this.dataSource, SHOWN_MINUTES);
    const oldestPendingAt = await this.counts.findOldestPending(this.dataSource, runs.states.PENDING);
    return { runs, oldestPendingAt, workers: summariseWorkers(await this.workers.list()) };
  }
}

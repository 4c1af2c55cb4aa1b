import { Inject, Injectable } from '@nestjs/common';
import { RunJournal, type ClaimedRun } from '../runs/run-journal/run-journal.js';
import type { SchedulingStrategy } from '../runs/scheduling-strategy.js';
import { WorkerPool } from './pool/worker-pool.js';
import { SCHEDULER } from './strategies/scheduler.js';

/** Hands pending runs to workers. */
@Injectable()
export class ClaimService {
  constructor(
    private readonly pool: WorkerPool,
    private readonly journal: RunJournal,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /**
   * Claims runs for a worker. An unknown or inactive worker gets none; so does a caller that has gone away, because
   * nobody would hear the answer.
   * @param callerIsThere asked at the moment of handing out
   */
  async claim(workerId: string, callerIsThere: () => boolean): Promise<readonly ClaimedRun[]> {
    const worker = await this.pool.find(workerId);
    if (!worker?.isActive) return [];
    return this.journal.claim({ worker, strategy: this.strategy, stillWanted: callerIsThere });
  }
}

import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { execute } from '../../database/sql.js';
import { QueueReader } from '../queue/queue.reader.js';
import type { HeldRun } from '../scheduling-strategy.js';
import { HeldRunRepository } from '../storage/held-run.repository.js';
import { RunCountsRepository } from './run-counts.repository.js';
import { RunDemandRepository, type RunDemand } from './run-demand.repository.js';

/** What the runs that have not ended ask for, and what the workers hold. */
export interface DemandSnapshot {
  readonly demand: RunDemand;
  /** When the oldest pending run was created; null when none is. */
  readonly oldestPendingAt: Date | null;
  /** The runs that the workers hold, by worker; a worker that holds none is absent. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Ids of workers that are reserved for a run. */
  readonly reserved: ReadonlySet<string>;
}

/** Reads demand and held runs, at a cost that does not grow with the number of pending and ended runs. */
@Injectable()
export class RunDemandReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly demand: RunDemandRepository,
    private readonly counts: RunCountsRepository,
    private readonly heldRuns: HeldRunRepository,
    private readonly queue: QueueReader,
  ) {}

  /**
   * One snapshot, so that a run that is claimed meanwhile is either pending or held.
   * @param workerIds the workers whose runs are read
   * @param limit shapes at most that are listed one by one
   */
  read(workerIds: readonly string[], limit: number): Promise<DemandSnapshot> {
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      // Statistics lag behind a queue that grows by a million, so the planner would choose sequential scans.
      await execute(
        manager,
        `select set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`,
      );
      const demand = await this.demand.read(manager, limit);
      const pending = demand.ready.runs + demand.waiting.runs;
      return {
        demand,
        oldestPendingAt: await this.counts.findOldestPending(manager, pending),
        held: await this.heldRuns.findHeld(manager, workerIds),
        reserved: new Set(await this.queue.listReservedWorkers(manager)),
      };
    });
  }
}

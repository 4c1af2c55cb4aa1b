import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { HeldRunRepository } from '../storage/held-run.repository.js';
import { OldestPendingRepository } from '../queue/oldest-pending.repository.js';
import { QueueStandingRepository } from '../queue/queue-standing.repository.js';
import type { HeldRun } from '../scheduling-strategy.js';
import { RunDemandRepository, type RunDemand } from './run-demand.repository.js';

/** What the runs that have not ended ask for, and where they are. */
export interface DemandStanding {
  readonly demand: RunDemand;
  /** When the oldest pending run was created; null when none is. */
  readonly oldestPendingAt: Date | null;
  /** The runs in the hands of the workers that were asked about, by worker; one that holds none is left out. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Ids of workers that are kept free for a run. */
  readonly reserved: ReadonlySet<string>;
}

/** Reads what runs ask for, at a cost that does not grow with the number of those that are pending or have ended. */
@Injectable()
export class RunDemandReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly demand: RunDemandRepository,
    private readonly oldestPending: OldestPendingRepository,
    private readonly heldRuns: HeldRunRepository,
    private readonly queue: QueueStandingRepository,
  ) {}

  /**
   * All by one snapshot, so that a run that is claimed meanwhile is either pending or in its worker's hands.
   * @param workerIds the workers whose runs are wanted
   * @param limit shapes at most that are told one by one
   */
  read(workerIds: readonly string[], limit: number): Promise<DemandStanding> {
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      await this.demand.planByIndexes(manager);
      const demand = await this.demand.read(manager, limit);
      // The counts tell that there is nothing to look for among what has left the state.
      const isAnyPending = demand.ready.runs + demand.waiting.runs > 0;
      return {
        demand,
        oldestPendingAt: isAnyPending ? await this.oldestPending.find(manager) : null,
        held: await this.heldRuns.findHeld(manager, workerIds),
        reserved: new Set(await this.queue.listReservers(manager)),
      };
    });
  }
}

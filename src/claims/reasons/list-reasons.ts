import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { RunRecord } from '../../runs/machine/run.js';
import { ownReason, type PendingReason } from '../../runs/pending-reason.js';
import { Pauses } from '../../runs/queue/pauses.js';
import { QueueReader } from '../../runs/queue/queue.reader.js';
import type { PendingReasonSource } from '../../runs/reading/run-list.reader.js';
import { requirementsOf } from '../../runs/requirements.js';
import { couldExecuteIdle, type SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { WorkerPool, type PooledWorker } from '../../workers/pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import { SharedReading } from '../../common/shared-reading.js';
import { WorkerKinds } from './worker-kinds.js';

/** Why the pending runs of a list wait, with one statement for its runs with a concurrency key, one while there are pauses, and a shared reading of the workers. */
@Injectable()
export class ListReasons implements PendingReasonSource {
  readonly #workers = new SharedReading(async () => new WorkerKinds(await this.pool.list()), {
    pauseFactor: 9,
  });

  constructor(
    private readonly pool: WorkerPool,
    private readonly queue: QueueReader,
    private readonly pauses: Pauses,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /** @param runs those that are pending */
  async findReasons(
    manager: EntityManager,
    runs: readonly RunRecord[],
  ): Promise<ReadonlyMap<string, PendingReason>> {
    const paused = await this.pauses.find(
      manager,
      runs.map(({ id }) => id),
    );
    const open = runs.filter((run) => ownReason(run, paused.has(run.id)) === null);
    const keyed = open.filter(({ concurrencyKey }) => concurrencyKey !== null).map(({ id }) => id);
    const heldBack = new Set(keyed.length === 0 ? [] : await this.queue.listHeldBack(manager, keyed));
    const isKnown = open.every(({ id }) => heldBack.has(id));
    const kinds = isKnown ? null : await this.#workers.newest();
    return new Map(
      runs.flatMap((run) => {
        const reason =
          ownReason(run, paused.has(run.id)) ??
          (heldBack.has(run.id) ? 'concurrency' : kinds?.reasonFor(requirementsOf(run), this.#holds(run)));
        return reason === undefined ? [] : [[run.id, reason]];
      }),
    );
  }

  #holds(run: RunRecord) {
    return (worker: PooledWorker): boolean => couldExecuteIdle(this.strategy, worker, run);
  }
}

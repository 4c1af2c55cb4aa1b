import { Injectable } from '@nestjs/common';
import { stringifyJson } from '@longshore/common/json/json-text';
import { Subject } from 'rxjs';
import { DataSource } from 'typeorm';
import type { Author } from '../auth/audit-log.js';
import { OverLimit } from '../common/errors/domain-error.js';
import { MINUTE, ScheduledJob, type JobRun } from '../common/scheduling/scheduled-job.js';
import { HeldRunRepository, type HeldAttempt } from '../runs/storage/held-run.repository.js';
import type { HeldRun } from '../runs/scheduling-strategy.js';
import { Settings } from '../config/settings.js';
import { readPage, type Page } from '../database/sql/read-page.js';
import { freeResources, type FreeResources } from './free-resources.js';
import { bytesOfDescription } from './pool/worker-bytes.js';
import { WorkerPool, type Heartbeat, type PooledWorker } from './pool/worker-pool.js';
import { WorkerHoldsRuns, WorkerNotFound } from './workers.errors.js';

export interface WorkerStatus {
  readonly worker: PooledWorker;
  readonly free: FreeResources;
  /** The runs that are assigned to it, in the order of their ids. */
  readonly assigned: readonly string[];
}

@Injectable()
export class WorkersService {
  /** The workers whose heartbeats this process stored. */
  readonly reported = new Subject<PooledWorker>();
  /** Ids of the workers whose drain this process ended. */
  readonly resumed = new Subject<string>();

  constructor(
    private readonly pool: WorkerPool,
    private readonly heldRuns: HeldRunRepository,
    private readonly dataSource: DataSource,
    private readonly settings: Settings,
  ) {}

  /**
   * Registers a worker or refreshes it. @param keyId API key whose worker it then is
   * @throws OverLimit, TooManyHeartbeats
   */
  async heartbeat(heartbeat: Heartbeat, keyId: string): Promise<PooledWorker> {
    const { maxWorkerBytes } = this.settings;
    if (bytesOfDescription(heartbeat) > maxWorkerBytes) {
      const detail = `The GPUs, tags, capabilities and reasons are larger than ${maxWorkerBytes} bytes`;
      throw new OverLimit(detail, 'SERVICE_MAX_WORKER_BYTES', 60);
    }
    const worker = await this.pool.heartbeat(heartbeat, keyId);
    this.reported.next(worker);
    return worker;
  }

  @ScheduledJob({
    name: 'worker_retention',
    description: 'removes workers that have been silent for a day; those that never had a run, for an hour',
    everyMs: 5 * MINUTE,
  })
  forgetSilent({ stop }: JobRun): Promise<number> {
    return this.pool.forget(stop);
  }

  async list(): Promise<WorkerStatus[]> {
    const workers = await this.pool.list();
    // An index step for each of ten thousand ids would cost more than the runs in execution.
    const held = await this.heldRuns.findHeld(this.dataSource, 'all');
    return workers.map((worker) => statusOf(worker, held));
  }

  /** A page of the workers, ordered by id. @param after the page starts after this id */
  async listPage(limit: number, after: string): Promise<Page<WorkerStatus>> {
    const page = await readPage<PooledWorker>(
      { limit, maxBytes: this.settings.maxAnswerBytes },
      (count, last) => this.pool.listAfter(last?.id ?? after, count),
      (worker) => stringifyJson(worker).length,
    );
    const held = await this.#heldBy(page.items);
    return { ...page, items: page.items.map((worker) => statusOf(worker, held)) };
  }

  /** What a worker that starts goes on with. */
  listHeld(workerId: string): Promise<HeldAttempt[]> {
    return this.heldRuns.listHeld(this.dataSource, workerId);
  }

  /** Starts or ends a drain. @throws WorkerNotFound */
  async setDraining(workerId: string, draining: boolean, by: Author): Promise<WorkerStatus> {
    const worker = await this.pool.setDraining(workerId, draining, by);
    if (!worker) throw new WorkerNotFound(workerId);
    if (!draining) this.resumed.next(workerId);
    return statusOf(worker, await this.#heldBy([worker]));
  }

  /** Removes a worker that ended cleanly; an unknown one, too. @throws WorkerHoldsRuns */
  async remove(workerId: string): Promise<void> {
    const held = await this.heldRuns.findHeld(this.dataSource, [workerId]);
    const count = (held.get(workerId) ?? []).filter(({ isEnding }) => isEnding !== true).length;
    if (count > 0) throw new WorkerHoldsRuns(workerId, count);
    await this.pool.remove(workerId);
  }

  #heldBy(workers: readonly PooledWorker[]): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    const ids = workers.map(({ id }) => id);
    return this.heldRuns.findHeld(this.dataSource, ids);
  }
}

function statusOf(worker: PooledWorker, held: ReadonlyMap<string, readonly HeldRun[]>): WorkerStatus {
  const runs = held.get(worker.id) ?? [];
  const assigned = runs.filter(({ isEnding }) => isEnding !== true).map(({ runId }) => runId);
  return { worker, free: freeResources(worker, runs), assigned: assigned.toSorted() };
}

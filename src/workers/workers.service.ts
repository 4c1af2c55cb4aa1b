import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { HeldRunRepository } from '../runs/storage/held-run.repository.js';
import { oneByOne } from '../runs/http/json-stream.js';
import type { HeldRun } from '../runs/scheduling-strategy.js';
import { WaitingClaims } from './claims/waiting-claims.js';
import { freeResources, type FreeResources } from './free-resources.js';
import { WorkerPool, type Heartbeat, type PooledWorker } from './pool/worker-pool.js';
import { WorkerNotFound } from './workers.errors.js';

export interface WorkerStatus {
  readonly worker: PooledWorker;
  readonly free: FreeResources;
}

@Injectable()
export class WorkersService {
  constructor(
    private readonly pool: WorkerPool,
    private readonly claims: WaitingClaims,
    private readonly heldRuns: HeldRunRepository,
    private readonly dataSource: DataSource,
  ) {}

  /** Registers a worker or refreshes it. Its refused claims that wait are tried again. */
  async heartbeat(heartbeat: Heartbeat): Promise<PooledWorker> {
    const worker = await this.pool.heartbeat(heartbeat);
    this.claims.wakeRefused(worker.id);
    return worker;
  }

  async list(): Promise<Iterable<WorkerStatus>> {
    const workers = await this.pool.list();
    const held = await this.#heldBy(workers);
    return oneByOne(workers, (worker) => statusOf(worker, held));
  }

  /** Starts or ends a drain. @throws WorkerNotFound */
  async setDraining(workerId: string, draining: boolean): Promise<WorkerStatus> {
    const worker = await this.pool.setDraining(workerId, draining);
    if (!worker) throw new WorkerNotFound(workerId);
    if (!draining) this.claims.wakeRefused(workerId);
    return statusOf(worker, await this.#heldBy([worker]));
  }

  #heldBy(workers: readonly PooledWorker[]): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    const ids = workers.map(({ id }) => id);
    return this.heldRuns.findHeld(this.dataSource, ids);
  }
}

function statusOf(worker: PooledWorker, held: ReadonlyMap<string, readonly HeldRun[]>): WorkerStatus {
  return { worker, free: freeResources(worker, held.get(worker.id) ?? []) };
}

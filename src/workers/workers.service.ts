import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { HeldRunRepository } from '../runs/storage/held-run.repository.js';
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
    return statusesOf(workers, await this.#heldBy(workers));
  }

  /** Starts or ends a drain. @throws WorkerNotFound */
  async setDraining(workerId: string, draining: boolean): Promise<WorkerStatus> {
    const worker = await this.pool.setDraining(workerId, draining);
    if (!worker) throw new WorkerNotFound(workerId);
    if (!draining) this.claims.wakeRefused(workerId);
    const held = await this.#heldBy([worker]);
    return { worker, free: freeResources(worker, held.get(workerId) ?? []) };
  }

  #heldBy(workers: readonly PooledWorker[]): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    const ids = workers.map(({ id }) => id);
    return this.heldRuns.findHeld(this.dataSource, ids);
  }
}

/** Computes each status as it is read. */
function* statusesOf(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): Generator<WorkerStatus> {
  for (const worker of workers) yield { worker, free: freeResources(worker, held.get(worker.id) ?? []) };
}

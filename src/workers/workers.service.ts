import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { HeldRunRepository } from '../runs/storage/held-run.repository.js';
import type { HeldRun } from '../runs/scheduling-strategy.js';
import { WaitingClaims } from './claims/waiting-claims.js';
import { freeResources, type FreeResources } from './free-resources.js';
import { WorkerPool, type Heartbeat, type PooledWorker } from './pool/worker-pool.js';
import { WorkerNotFound } from './workers.errors.js';

/** A worker and what it has left. */
export interface WorkerStanding {
  readonly worker: PooledWorker;
  readonly free: FreeResources;
}

/** Workers as people see and control them. */
@Injectable()
export class WorkersService {
  constructor(
    private readonly pool: WorkerPool,
    private readonly claims: WaitingClaims,
    private readonly heldRuns: HeldRunRepository,
    private readonly dataSource: DataSource,
  ) {}

  /** Registers a worker or refreshes it; a claim of it that waits for that tries again. */
  async heartbeat(heartbeat: Heartbeat): Promise<PooledWorker> {
    const worker = await this.pool.heartbeat(heartbeat);
    this.claims.wakeRefused(worker.id);
    return worker;
  }

  /** All registered workers by id; what each has left is worked out as it is asked for. */
  async list(): Promise<Iterable<WorkerStanding>> {
    const workers = await this.pool.list();
    return standings(workers, await this.#heldBy(workers));
  }

  /**
   * Keeps a worker from claiming, or lets it claim again.
   * @throws WorkerNotFound
   */
  async setDraining(workerId: string, draining: boolean): Promise<WorkerStanding> {
    const worker = await this.pool.setDraining(workerId, draining);
    if (!worker) throw new WorkerNotFound(workerId);
    if (!draining) this.claims.wakeRefused(workerId);
    const held = await this.#heldBy([worker]);
    return { worker, free: freeResources(worker, held.get(workerId) ?? []) };
  }

  #heldBy(workers: readonly PooledWorker[]): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    return this.heldRuns.findHeld(
      this.dataSource,
      workers.map(({ id }) => id),
    );
  }
}

function* standings(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): Generator<WorkerStanding> {
  for (const worker of workers) yield { worker, free: freeResources(worker, held.get(worker.id) ?? []) };
}

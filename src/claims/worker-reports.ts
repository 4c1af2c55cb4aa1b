import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { DataSource } from 'typeorm';
import { execute } from '../database/sql/sql.js';
import type { PooledWorker } from '../workers/pool/worker-pool.js';
import { WorkersService } from '../workers/workers.service.js';
import { WaitingClaims } from './waiting-claims.js';

/** Lets claims that wait try again when their workers report or are resumed, in this process and in the others. */
@Injectable()
export class WorkerReports implements OnModuleInit, OnModuleDestroy {
  #subscriptions: readonly Subscription[] = [];

  constructor(
    private readonly workers: WorkersService,
    private readonly waiting: WaitingClaims,
    private readonly dataSource: DataSource,
  ) {}

  onModuleInit(): void {
    this.#subscriptions = [
      this.workers.reported.subscribe((worker) => void this.#onReport(worker)),
      this.workers.resumed.subscribe((workerId) => this.waiting.wakeRefused(workerId)),
    ];
  }

  onModuleDestroy(): void {
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
  }

  async #onReport(worker: PooledWorker): Promise<void> {
    const channel = this.waiting.noteHeartbeat(worker);
    this.waiting.wakeRefused(worker.id);
    if (channel === null) return;
    // Claims in other processes try again by themselves after the database was unavailable.
    await execute(this.dataSource, `select pg_notify('${channel}', $1::text)`, [worker.id]).catch(
      () => undefined,
    );
  }
}

import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { sendNotice } from '../database/notices/commit-notice.js';
import type { PooledWorker } from '../workers/pool/worker-pool.js';
import { WorkersService } from '../workers/workers.service.js';
import { WaitingClaims } from './waiting-claims.js';

/**
 * Lets claims that wait try again when their workers report to this process or are resumed there; in other processes too, when a worker
 * has other tags, capabilities or GPUs, or more resources.
 */
@Injectable()
export class WorkerReports implements OnModuleInit {
  constructor(
    private readonly workers: WorkersService,
    private readonly waiting: WaitingClaims,
    private readonly dataSource: DataSource,
  ) {}

  onModuleInit(): void {
    this.workers.reported.subscribe((worker) => void this.#onReport(worker));
    this.workers.resumed.subscribe((workerId) => this.waiting.wakeRefused(workerId));
  }

  async #onReport(worker: PooledWorker): Promise<void> {
    const notice = this.waiting.noteHeartbeat(worker);
    this.waiting.wakeRefused(worker.id);
    // Claims in other processes try again by themselves after the database was unavailable.
    if (notice !== null) await sendNotice(this.dataSource, notice).catch(() => undefined);
  }
}

import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { BatchedReads } from '../../database/batched-reads.js';
import { RunCountsRepository } from '../../runs/counts/run-counts.repository.js';
import { SHOWN_MINUTES } from '../../runs/counts/run-counts.roll-up.js';
import { summariseEngines } from '../pool/engine-use.js';
import { WorkersService } from '../workers.service.js';
import type { OverviewDto } from './overview.dto.js';
import { summariseWorkers } from './workers-summary.js';

/** Engines that are shown. */
const MAX_ENGINES = 20;

@Injectable()
export class OverviewService {
  readonly #readings = new BatchedReads(async () => new Map([['all', await this.#read()]]));

  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly workers: WorkersService,
  ) {}

  /** Concurrent requests share a reading. */
  async read(): Promise<OverviewDto> {
    const overview = await this.#readings.load('all');
    if (overview === undefined) throw new Error('the overview was not read');
    return overview;
  }

  /** The counts, the age of the queue and the workers are read one after the other. */
  async #read(): Promise<OverviewDto> {
    const { at, states, minutes } = await this.counts.read(this.dataSource, SHOWN_MINUTES);
    const { PENDING, ASSIGNED, RUNNING, COMPLETED, FAILED, CANCELLED } = states;
    const oldestPendingAt = await this.counts.findOldestPending(this.dataSource, PENDING);
    const workers = await this.workers.list();
    const { active, draining, stale, cpu, ramMb, vramMb } = summariseWorkers(workers);
    return {
      at: at.toISOString(),
      runs: { PENDING, ASSIGNED, RUNNING, COMPLETED, FAILED, CANCELLED },
      oldest_pending_at: oldestPendingAt?.toISOString() ?? null,
      minutes: minutes.map(({ minute, created, completed, failed, cancelled }) => ({
        t: minute.toISOString(),
        created,
        completed,
        failed,
        cancelled,
      })),
      workers: { active, draining, stale },
      capacity: { cpu, ram_mb: ramMb, vram_mb: vramMb },
      engines: summariseEngines(
        workers.map(({ worker }) => worker),
        MAX_ENGINES,
      ),
    };
  }
}

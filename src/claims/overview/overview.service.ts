import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { RunCountsRepository } from '../../runs/counts/run-counts.repository.js';
import { SHOWN_MINUTES } from '../../runs/counts/run-counts.roll-up.js';
import { summariseEngines } from '../../workers/pool/worker-pool.js';
import { summariseWorkers, toCores } from '../../workers/worker-totals.js';
import { WorkersService } from '../../workers/workers.service.js';
import { CapacityService } from '../capacity/capacity.service.js';
import { FileStoreState } from '../../health/file-store-state.js';
import { SharedReading } from '../../common/shared-reading.js';
import type { OverviewDto } from './overview.dto.js';

/** Engines that are shown. */
const MAX_ENGINES = 20;

@Injectable()
export class OverviewService {
  readonly #reading = new SharedReading(() => this.#read(), { pauseFactor: 9 });

  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly workers: WorkersService,
    private readonly capacity: CapacityService,
    private readonly files: FileStoreState,
  ) {}

  /** Concurrent requests share a reading, since it reads all workers. */
  read(): Promise<OverviewDto> {
    return this.#reading.next();
  }

  /** The counts, the age of the queue, the workers and the reasons are read one after the other. */
  async #read(): Promise<OverviewDto> {
    const { at, states, minutes } = await this.counts.read(this.dataSource, SHOWN_MINUTES);
    const { PENDING, ASSIGNED, RUNNING, COMPLETED, FAILED, CANCELLED } = states;
    const oldestPendingAt = await this.counts.findOldestPending(this.dataSource, PENDING);
    const workers = await this.workers.list();
    const reasons = await this.capacity.countByReason(PENDING);
    const { state, since, detail } = this.files.health;
    const { cpuMillis, ramMb, vramMb, ...groups } = summariseWorkers(workers);
    return {
      at: at.toISOString(),
      runs: { PENDING, ASSIGNED, RUNNING, COMPLETED, FAILED, CANCELLED },
      reasons,
      oldest_pending_at: oldestPendingAt?.toISOString() ?? null,
      minutes: minutes.map(({ minute, created, completed, failed, cancelled }) => ({
        t: minute.toISOString(),
        created,
        completed,
        failed,
        cancelled,
      })),
      workers: groups,
      capacity: { cpu: toCores(cpuMillis), cpu_millis: cpuMillis, ram_mb: ramMb, vram_mb: vramMb },
      engines: summariseEngines(
        workers.map(({ worker }) => worker),
        MAX_ENGINES,
      ),
      files: { state, since: since?.toISOString() ?? null, detail },
    };
  }
}

import { groupOf, summariseEngines } from '../pool/worker-pool.js';
import { type WorkerStatus, WorkersService } from '../workers.service.js';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { RunCountsRepository } from '../../runs/counts/run-counts.repository.js';
import { SHOWN_MINUTES } from '../../runs/counts/run-counts.roll-up.js';
import type { OverviewDto } from './overview.dto.js';
import { PacedReading } from './paced-reading.js';

export interface Usage {
  readonly total: number;
  readonly used: number;
}

/** Workers by group, and the resources of the active group; GPU memory over all GPUs. */
export function summariseWorkers(workers: Iterable<Omit<WorkerStatus, 'assigned'>>) {
  const counts = { active: 0, draining: 0, not_claiming: 0, stale: 0 };
  const cpuMillis = { total: 0, used: 0 };
  const ramMb = { total: 0, used: 0 };
  const vramMb = { total: 0, used: 0 };
  for (const { worker, free } of workers) {
    const group = groupOf(worker);
    counts[group] += 1;
    if (group !== 'active') continue;
    add(cpuMillis, worker.cpuCores * 1000, free.cpuMillis);
    add(ramMb, worker.ramMb, free.ramMb);
    add(vramMb, vramOf(worker.gpus), vramOf(free.gpus));
  }
  return { ...counts, cpuMillis, ramMb, vramMb };
}

/** Whole cores: what is used in part counts as used. */
export function toCores({ total, used }: Usage): Usage {
  return { total: total / 1000, used: Math.ceil(used / 1000) };
}

function add(usage: { total: number; used: number }, total: number, free: number): void {
  usage.total += total;
  usage.used += total - free;
}

function vramOf(gpus: readonly { readonly vramMb: number }[]): number {
  return gpus.reduce((sum, { vramMb }) => sum + vramMb, 0);
}

/** Engines that are shown. */
const MAX_ENGINES = 20;

@Injectable()
export class OverviewService {
  readonly #reading = new PacedReading(() => this.#read());

  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly workers: WorkersService,
  ) {}

  /** Concurrent requests share a reading, since it reads all workers. */
  read(): Promise<OverviewDto> {
    return this.#reading.get();
  }

  /** The counts, the age of the queue and the workers are read one after the other. */
  async #read(): Promise<OverviewDto> {
    const { at, states, minutes } = await this.counts.read(this.dataSource, SHOWN_MINUTES);
    const { PENDING, ASSIGNED, RUNNING, COMPLETED, FAILED, CANCELLED } = states;
    const oldestPendingAt = await this.counts.findOldestPending(this.dataSource, PENDING);
    const workers = await this.workers.list();
    const { cpuMillis, ramMb, vramMb, ...groups } = summariseWorkers(workers);
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
      workers: groups,
      capacity: { cpu: toCores(cpuMillis), cpu_millis: cpuMillis, ram_mb: ramMb, vram_mb: vramMb },
      engines: summariseEngines(
        workers.map(({ worker }) => worker),
        MAX_ENGINES,
      ),
    };
  }
}

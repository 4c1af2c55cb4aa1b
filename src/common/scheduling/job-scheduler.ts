import { Injectable } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { isDatabaseUnavailable } from '../../database/failover/unavailable.js';
import { Clock } from '../clock.js';
import { DomainError } from '../errors/domain-error.js';
import { Log } from '../logging/logger.js';
import { JobMetrics } from './job-metrics.js';
import type { Job } from './job-explorer.js';

interface Entry {
  readonly job: Job;
  /** When the next run is due, by the clock's `now()`. */
  dueAt: number;
  /** Pause after the next failure. */
  retryMs: number;
  hasFailed: boolean;
  running: Promise<void> | undefined;
}

/**
 * Runs jobs at their times. Each has one timer in Nest's `SchedulerRegistry`, under the name of the job; deleting it there
 * ends the job. A job never overlaps itself in one process.
 */
@Injectable()
export class JobScheduler {
  readonly #stop = new AbortController();
  readonly #entries = new Map<string, Entry>();

  constructor(
    private readonly registry: SchedulerRegistry,
    private readonly clock: Clock,
    private readonly metrics: JobMetrics,
    private readonly log: Log,
  ) {}

  /** Schedules a job, its first run after its first delay. @throws Error when the name is taken */
  add(job: Job): void {
    if (this.#stop.signal.aborted) return;
    const dueAt = this.clock.now() + job.firstDelayMs;
    const retryMs = job.retry?.firstMs ?? 0;
    const entry = { job, dueAt, retryMs, hasFailed: false, running: undefined };
    this.#setTimer(entry);
    this.#entries.set(job.name, entry);
    this.metrics.add(job.name);
  }

  /**
   * Brings the next run of a job forward, unless it is due earlier anyway. A run in progress is followed by another one.
   * Does nothing before the job is scheduled and after the shutdown has begun.
   */
  runWithin(name: string, ms: number): void {
    const entry = this.#entries.get(name);
    if (!entry) return;
    const dueAt = this.clock.now() + Math.max(0, ms) + Math.random() * entry.job.jitterMs;
    if (dueAt >= entry.dueAt) return;
    entry.dueAt = dueAt;
    if (!entry.running) this.#resetTimer(entry);
  }

  /** Starts no further run. @returns when the runs in progress have finished their batch */
  async stop(): Promise<void> {
    this.#stop.abort();
    for (const name of this.#entries.keys()) {
      if (this.registry.doesExist('timeout', name)) this.registry.deleteTimeout(name);
    }
    await Promise.all([...this.#entries.values()].flatMap(({ running }) => running ?? []));
  }

  #setTimer(entry: Entry): void {
    const delay = Math.ceil(Math.max(0, entry.dueAt - this.clock.now()));
    this.registry.addTimeout(
      entry.job.name,
      setTimeout(() => this.#start(entry), delay),
    );
  }

  #resetTimer(entry: Entry): void {
    const { name } = entry.job;
    if (!this.registry.doesExist('timeout', name)) return;
    this.registry.deleteTimeout(name);
    this.#setTimer(entry);
  }

  #start(entry: Entry): void {
    const { everyMs, jitterMs } = entry.job;
    entry.dueAt = this.clock.now() + everyMs - Math.random() * jitterMs;
    // The work begins after `running` is set, so that it can request the next run.
    entry.running = Promise.resolve()
      .then(() => this.#run(entry))
      .finally(() => {
        entry.running = undefined;
        this.#resetTimer(entry);
      });
  }

  async #run(entry: Entry): Promise<void> {
    const { name, description, level, retry, againMs, work } = entry.job;
    const startedAt = this.clock.now();
    const seconds = (): number => (this.clock.now() - startedAt) / 1000;
    try {
      const items = await work(this.#stop.signal);
      this.metrics.succeeded(name, seconds(), items);
      if (entry.hasFailed) this.log.info(`scheduled job succeeds again: ${description}`, { job: name });
      if (items > 0) this.log[level](`scheduled job finished: ${description}`, { job: name, items });
      entry.hasFailed = false;
      entry.retryMs = retry?.firstMs ?? 0;
      if (items > 0 && againMs !== undefined) this.runWithin(name, againMs);
    } catch (error) {
      this.metrics.failed(name, seconds());
      this.#logFailure(entry, error);
      entry.hasFailed = true;
      if (!retry) return;
      this.runWithin(name, entry.retryMs);
      entry.retryMs = Math.min(entry.retryMs * 2, retry.longestMs);
    }
  }

  /** An outage is logged once, not at every run. */
  #logFailure({ job: { name, description }, hasFailed }: Entry, error: unknown): void {
    const message = `scheduled job failed, it will be repeated: ${description}`;
    const isTemporary =
      isDatabaseUnavailable(error) || (error instanceof DomainError && error.kind === 'unavailable');
    if (!isTemporary) this.log.error(message, { job: name, error });
    else if (!hasFailed) this.log.warn(message, { job: name, error });
  }
}

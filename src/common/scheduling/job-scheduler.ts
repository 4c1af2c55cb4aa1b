import { Injectable } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { JobClock } from './job-clock.js';
import { JobRunner } from './job-runner.js';
import type { JobOptions, JobWork } from './scheduled-job.js';

interface Entry {
  readonly job: JobOptions;
  readonly work: JobWork;
  /** When the next run is due, by the clock's `now()`. */
  dueAt: number;
  /** Pause after the next failure. */
  retryMs: number;
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
    private readonly clock: JobClock,
    private readonly runner: JobRunner,
  ) {}

  /** Schedules a job, its first run after its first delay. @throws Error when the name is taken */
  add(job: JobOptions, work: JobWork): void {
    if (this.#stop.signal.aborted) return;
    const dueAt = this.clock.now() + job.firstDelayMs;
    const entry = { job, work, dueAt, retryMs: job.retry?.firstMs ?? 0, running: undefined };
    this.#setTimer(entry);
    this.#entries.set(job.name, entry);
    this.runner.add(job);
  }

  /**
   * Brings the next run of a job forward, unless it is due earlier anyway. A run in progress is followed by another one.
   * Does nothing while the job is not scheduled: its first run is to come, or the process shuts down.
   */
  runWithin(name: string, ms: number): void {
    const entry = this.#entries.get(name);
    if (!entry) return;
    const dueAt = this.clock.now() + Math.max(0, ms) + this.clock.random() * entry.job.jitterMs;
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
      setTimeout(() => this.#run(entry), delay),
    );
  }

  #resetTimer(entry: Entry): void {
    const { name } = entry.job;
    if (!this.registry.doesExist('timeout', name)) return;
    this.registry.deleteTimeout(name);
    this.#setTimer(entry);
  }

  #run(entry: Entry): void {
    const { everyMs, jitterMs } = entry.job;
    entry.dueAt = this.clock.now() + everyMs - this.clock.random() * jitterMs;
    // The work begins after `running` is set, so that it can request the next run.
    entry.running = Promise.resolve()
      .then(() => this.#runOnce(entry))
      .finally(() => {
        entry.running = undefined;
        this.#resetTimer(entry);
      });
  }

  async #runOnce(entry: Entry): Promise<void> {
    const { job, work } = entry;
    const succeeded = await this.runner.run(job, work, this.#stop.signal);
    if (!job.retry) return;
    if (succeeded) {
      entry.retryMs = job.retry.firstMs;
      return;
    }
    this.runWithin(job.name, entry.retryMs);
    entry.retryMs = Math.min(entry.retryMs * 2, job.retry.longestMs);
  }
}

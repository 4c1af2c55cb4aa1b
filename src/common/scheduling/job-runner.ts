import { Injectable } from '@nestjs/common';
import { isDatabaseUnavailable } from '../../database/unavailable.js';
import { DomainError } from '../http/errors/domain-error.js';
import { Log } from '../logging/logger.js';
import { JobClock } from './job-clock.js';
import { JobMetrics } from './job-metrics.js';
import type { JobOptions, JobWork } from './scheduled-job.js';

/** Runs jobs once, with metrics and log. */
@Injectable()
export class JobRunner {
  /** Names of the jobs whose last run failed. */
  readonly #failing = new Set<string>();

  constructor(
    private readonly clock: JobClock,
    private readonly metrics: JobMetrics,
    private readonly log: Log,
  ) {}

  /** Creates the metrics of a job. */
  add({ name }: JobOptions): void {
    this.metrics.add(name);
  }

  /** Runs a job once. Never rejects. @returns whether the run succeeded */
  async run(job: JobOptions, work: JobWork, stop: AbortSignal): Promise<boolean> {
    const { name, does, level } = job;
    const startedAt = this.clock.now();
    const seconds = (): number => (this.clock.now() - startedAt) / 1000;
    try {
      const items = await work({ now: () => this.clock.databaseNow(), stop });
      this.metrics.succeeded(name, seconds(), items);
      if (this.#failing.delete(name)) this.log.info(`scheduled job succeeds again: ${does}`, { job: name });
      if (items > 0) this.log[level](`scheduled job finished: ${does}`, { job: name, items });
      return true;
    } catch (error) {
      this.metrics.failed(name, seconds());
      this.#logFailure(job, error);
      this.#failing.add(name);
      return false;
    }
  }

  /** An outage is logged once, not at every run. */
  #logFailure({ name, does }: JobOptions, error: unknown): void {
    const message = `scheduled job failed, it will be repeated: ${does}`;
    if (!isTemporary(error)) this.log.error(message, { job: name, error });
    else if (!this.#failing.has(name)) this.log.warn(message, { job: name, error });
  }
}

function isTemporary(error: unknown): boolean {
  return isDatabaseUnavailable(error) || (error instanceof DomainError && error.kind === 'unavailable');
}

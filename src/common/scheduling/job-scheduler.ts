import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { Settings } from '../../config/settings.js';
import { currentTime } from '../../database/sql/sql.js';
import { SCHEDULED_JOB, type JobOptions } from './scheduled-job.js';
import { SchedulerRegistry } from '@nestjs/schedule';
import { isDatabaseUnavailable } from '../../database/failover/unavailable.js';
import { Clock } from '../clock.js';
import { DomainError } from '../errors/domain-error.js';
import { Log } from '../logging/logger.js';

/** Metrics of scheduled jobs. The label is `name`, because Prometheus itself sets a label `job`. */
@Injectable()
export class JobMetrics {
  readonly #seconds: Histogram<'name'>;
  readonly #failures: Counter<'name'>;
  readonly #items: Counter<'name'>;
  readonly #succeededAt: Gauge<'name'>;

  constructor(registry: Registry) {
    const common = { labelNames: ['name'] as const, registers: [registry] };
    this.#seconds = new Histogram({
      ...common,
      name: 'longshore_job_duration_seconds',
      help: 'Duration of runs of scheduled jobs, failed ones included',
      buckets: [0.01, 0.1, 1, 10, 60],
    });
    this.#failures = new Counter({
      ...common,
      name: 'longshore_job_failures_total',
      help: 'Failed runs of scheduled jobs',
    });
    this.#items = new Counter({
      ...common,
      name: 'longshore_job_items_total',
      help: 'Items that scheduled jobs processed, such as removed rows or reclaimed runs',
    });
    this.#succeededAt = new Gauge({
      ...common,
      name: 'longshore_job_last_success_timestamp_seconds',
      help: 'When a scheduled job last succeeded; at first, when the process started it',
      // One process that succeeds is enough.
      aggregator: 'max',
    });
  }

  /** Creates the series of a job. */
  add(name: string): void {
    this.#seconds.zero({ name });
    this.#failures.inc({ name }, 0);
    this.#items.inc({ name }, 0);
    this.#succeededAt.set({ name }, Date.now() / 1000);
  }

  succeeded(name: string, seconds: number, items: number): void {
    this.#seconds.observe({ name }, seconds);
    this.#items.inc({ name }, items);
    this.#succeededAt.set({ name }, Date.now() / 1000);
  }

  failed(name: string, seconds: number): void {
    this.#seconds.observe({ name }, seconds);
    this.#failures.inc({ name });
  }
}

/** Failed runs in succession after which a job counts as failing. */
const FAULTS = 2;

/** A job with its times. */
export interface Job extends JobOptions {
  readonly everyMs: number;
  readonly jitterMs: number;
  readonly firstDelayMs: number;
  readonly level: 'debug' | 'info';
  /** Does the work once. @param stop aborts when the process shuts down @returns how many items it processed */
  readonly work: (stop: AbortSignal) => number | Promise<number>;
}

/** Finds the methods of all providers that are scheduled jobs. */
@Injectable()
export class JobExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly settings: Settings,
    private readonly dataSource: DataSource,
  ) {}

  find(): Job[] {
    const now = (): Promise<Date> => currentTime(this.dataSource);
    const instances = this.discovery
      .getProviders()
      .filter((wrapper) => wrapper.isDependencyTreeStatic())
      .map(({ instance }): unknown => instance)
      .filter((instance) => typeof instance === 'object' && instance !== null);
    // Several tokens may name one provider.
    return [...new Set(instances)].flatMap((instance) =>
      this.scanner.getAllMethodNames(Object.getPrototypeOf(instance)).flatMap((name) => {
        const method: unknown = Reflect.get(instance, name);
        if (typeof method !== 'function') return [];
        const options: JobOptions | undefined = Reflect.getMetadata(SCHEDULED_JOB, method);
        return options === undefined
          ? []
          : [this.#jobOf(options, (stop) => Reflect.apply(method, instance, [{ now, stop }]))];
      }),
    );
  }

  #jobOf(options: JobOptions, work: Job['work']): Job {
    const { everyMs: every } = options;
    const everyMs = typeof every === 'number' ? every : every(this.settings);
    return { jitterMs: everyMs / 10, firstDelayMs: everyMs, level: 'info', ...options, everyMs, work };
  }
}

interface Entry {
  readonly job: Job;
  /** When the next run is due, by the clock's `now()`. */
  dueAt: number;
  /** Pause after the next failure. */
  retryMs: number;
  hasFailed: boolean;
  /** Failures since the last success for another reason than an outage of the database. */
  faults: number;
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
    const entry = { job, dueAt, retryMs, hasFailed: false, faults: 0, running: undefined };
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

  /** Whether a job that runs depend on fails again and again, for a reason of its own. */
  get isFailing(): boolean {
    return [...this.#entries.values()].some(({ job, faults }) => job.isVital === true && faults >= FAULTS);
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
      entry.faults = 0;
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
  #logFailure(entry: Entry, error: unknown): void {
    const {
      job: { name, description },
      hasFailed,
    } = entry;
    const message = `scheduled job failed, it will be repeated: ${description}`;
    const isTemporary =
      isDatabaseUnavailable(error) || (error instanceof DomainError && error.kind === 'unavailable');
    if (!isTemporary) {
      entry.faults += 1;
      this.log.error(message, { job: name, error });
    } else if (!hasFailed) this.log.warn(message, { job: name, error });
  }
}

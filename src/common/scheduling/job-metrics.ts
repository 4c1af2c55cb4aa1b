import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

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

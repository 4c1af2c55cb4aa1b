import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';

/** The jobs that remove what is old. */
export const PASS_NAMES = [
  'runs',
  'run_counts',
  'run_demand',
  'idempotency_keys',
  'feed',
  'logs',
  'workers',
] as const;
export type PassName = (typeof PASS_NAMES)[number];

/** What the jobs that remove what is old tell about their passes. */
@Injectable()
export class PassMetrics {
  readonly #removed: Counter<'pass'>;
  readonly #failures: Counter<'pass'>;
  readonly #succeededAt: Gauge<'pass'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const labelNames = ['pass'] as const;
    this.#removed = new Counter({
      name: 'longshore_pass_removed_total',
      help: 'What passes of retention removed or summed up, each in its own unit',
      labelNames,
      registers,
    });
    this.#failures = new Counter({
      name: 'longshore_pass_failures_total',
      help: 'Passes of retention that could not be finished',
      labelNames,
      registers,
    });
    this.#succeededAt = new Gauge({
      name: 'longshore_pass_last_success_timestamp_seconds',
      help: 'When a pass of retention was last finished; at first, when the process started',
      labelNames,
      registers,
      // One process that comes through is enough.
      aggregator: 'max',
    });
    for (const pass of PASS_NAMES) {
      this.#removed.inc({ pass }, 0);
      this.#failures.inc({ pass }, 0);
      this.#succeededAt.set({ pass }, Date.now() / 1000);
    }
  }

  /** A pass came to its end. */
  finished(pass: PassName, removed: number): void {
    this.#removed.inc({ pass }, removed);
    this.#succeededAt.set({ pass }, Date.now() / 1000);
  }

  /** A pass could not be finished. */
  failed(pass: PassName): void {
    this.#failures.inc({ pass });
  }
}

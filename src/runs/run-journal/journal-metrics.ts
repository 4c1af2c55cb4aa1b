import { Injectable } from '@nestjs/common';
import { Histogram, Registry } from 'prom-client';

/** What the journal tells about its groups. */
@Injectable()
export class JournalMetrics {
  readonly #size: Histogram;
  readonly #seconds: Histogram;

  constructor(registry: Registry) {
    this.#size = new Histogram({
      name: 'longshore_journal_group_size',
      help: 'Commands committed together in one transaction',
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 200],
      registers: [registry],
    });
    this.#seconds = new Histogram({
      name: 'longshore_journal_commit_seconds',
      help: 'Time from the begin to the commit of a group',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
      registers: [registry],
    });
  }

  /** Counts one committed group. */
  observeGroup(size: number, seconds: number): void {
    this.#size.observe(size);
    this.#seconds.observe(seconds);
  }
}

import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { StoreUnavailable } from './stores.errors.js';

@Injectable()
export class StoreMetrics {
  readonly #up: Gauge;
  readonly #bytes: Counter<'direction'>;
  readonly #stored: Gauge;

  constructor(registry: Registry) {
    this.#up = new Gauge({
      name: 'longshore_file_store_up',
      help: 'Whether the store of files can be used: 1 or 0; absent without a store',
      registers: [registry],
      // One process that cannot use it is enough.
      aggregator: 'min',
    });
    this.#up.remove();
    this.#bytes = new Counter({
      name: 'longshore_file_bytes_total',
      help: 'Bytes of files that the service itself has received and sent',
      labelNames: ['direction'],
      registers: [registry],
    });
    for (const direction of ['in', 'out'] as const) this.#bytes.inc({ direction }, 0);
    this.#stored = new Gauge({
      name: 'longshore_file_stored_bytes',
      help: 'Bytes of files and artifacts in the store, as the daily sweep has found them last',
      registers: [registry],
      aggregator: 'max',
    });
    this.#stored.remove();
    let counted = 0;
    const errors: Counter = new Counter({
      name: 'longshore_file_store_errors_total',
      help: 'Requests of the service to stores of files that failed, each try',
      registers: [registry],
      collect: () => {
        errors.inc(StoreUnavailable.count - counted);
        counted = StoreUnavailable.count;
      },
    });
  }

  probed(isUp: boolean): void {
    this.#up.set(isUp ? 1 : 0);
  }

  swept(bytes: number): void {
    this.#stored.set(bytes);
  }

  moved(direction: 'in' | 'out', bytes: number): void {
    this.#bytes.inc({ direction }, bytes);
  }
}

import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';

@Injectable()
export class StoreMetrics {
  readonly #up: Gauge;
  readonly #bytes: Counter<'direction'>;

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
  }

  probed(isUp: boolean): void {
    this.#up.set(isUp ? 1 : 0);
  }

  moved(direction: 'in' | 'out', bytes: number): void {
    this.#bytes.inc({ direction }, bytes);
  }
}

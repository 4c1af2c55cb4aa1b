import { Injectable } from '@nestjs/common';
import { Counter, Registry } from 'prom-client';

/** Counts what was refused or cut off because of a limit; the limit is the name of its setting. */
@Injectable()
export class Refusals {
  readonly #refused: Counter<'limit'>;

  constructor(registry: Registry) {
    this.#refused = new Counter({
      name: 'longshore_refused_total',
      help: 'Requests refused and connections cut off because of a limit, by its setting',
      labelNames: ['limit'],
      registers: [registry],
    });
  }

  /** Shows the limit in the metrics before its first refusal. */
  declare(limit: string): void {
    this.#refused.inc({ limit }, 0);
  }

  count(limit: string): void {
    this.#refused.inc({ limit });
  }
}

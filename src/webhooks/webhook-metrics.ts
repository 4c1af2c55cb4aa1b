import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { ServiceRegistry } from '../common/metrics/metrics.controller.js';
import { scrapedReading } from '../common/metrics/scraped-reading.js';
import { TurnRepository } from './delivery/turn.repository.js';

/** `delivered`: taken; `failed`: a try that is repeated; `given_up`: the last try failed. */
const OUTCOMES = ['delivered', 'failed', 'given_up'] as const;

@Injectable()
export class WebhookMetrics {
  readonly #deliveries: Counter<'outcome'>;
  readonly #disabled: Counter;

  constructor(registry: Registry, service: ServiceRegistry, webhooks: TurnRepository) {
    this.#deliveries = new Counter({
      name: 'longshore_webhook_deliveries_total',
      help: 'Tries to send a message to a webhook',
      labelNames: ['outcome'],
      registers: [registry],
    });
    for (const outcome of OUTCOMES) this.#deliveries.inc({ outcome }, 0);
    this.#disabled = new Counter({
      name: 'longshore_webhooks_disabled_total',
      help: 'Webhooks that the service disabled because their endpoints took nothing',
      registers: [registry],
    });
    const readLag = scrapedReading(() => webhooks.findLag());
    const lag: Gauge = new Gauge({
      name: 'longshore_webhook_lag_seconds',
      help: 'Time since the oldest event happened that an enabled webhook has not sent; 0 without one',
      registers: [service],
      collect: async () => {
        const seconds = await readLag();
        if (seconds === null) lag.remove();
        else lag.set(seconds);
      },
    });
  }

  tried(outcome: (typeof OUTCOMES)[number]): void {
    this.#deliveries.inc({ outcome });
  }

  disabled(): void {
    this.#disabled.inc();
  }
}

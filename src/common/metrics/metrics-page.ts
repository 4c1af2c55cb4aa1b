import { Injectable } from '@nestjs/common';
import { Registry } from 'prom-client';
import { MetricsUnavailable } from './metrics.errors.js';
import { ServiceRegistry } from './service-registry.js';

/** What a scrape gets: the counts of the whole service, whichever of its processes was asked. */
@Injectable()
export class MetricsPage {
  #read: () => Promise<string>;

  constructor(
    registry: Registry,
    private readonly service: ServiceRegistry,
  ) {
    this.#read = () => registry.metrics();
  }

  /** Answers scrapes from elsewhere from now on: with several server processes, the counts of one are not the service's. */
  readFrom(source: () => Promise<string>): void {
    this.#read = () =>
      source().catch((error: unknown) => {
        throw new MetricsUnavailable(error);
      });
  }

  /** @returns Prometheus text. @throws MetricsUnavailable when the other processes' counts cannot be had */
  async text(): Promise<string> {
    const [counted, standing] = await Promise.all([this.#read(), this.service.metrics()]);
    return `${counted}\n${standing}`;
  }
}

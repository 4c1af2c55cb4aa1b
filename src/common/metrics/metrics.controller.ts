import { Injectable, Controller, Get, Header } from '@nestjs/common';
import { Registry } from 'prom-client';
import { DomainError } from '../errors/domain-error.js';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { AllowAnyKey } from '../../auth/access.js';
import { ApiErrors } from '../http/errors/error.dto.js';

/**
 * Gauges that are the same in every process, such as what the database holds. A scrape reads them once; those of the other
 * registry are added up over the processes.
 */
export class ServiceRegistry extends Registry {}

/** The metrics of the other server processes cannot be read, and those of one alone would mislead: 503. */
class MetricsUnavailable extends DomainError {
  readonly kind = 'unavailable';

  constructor(cause?: unknown) {
    super('Metrics are not available now', { retryAfterSeconds: 1, cause });
  }
}

/** The metrics of the whole service, in whichever of its processes. */
@Injectable()
export class MetricsPage {
  #read: () => Promise<string>;

  constructor(
    registry: Registry,
    private readonly service: ServiceRegistry,
  ) {
    this.#read = () => registry.metrics();
  }

  /** Replaces the metrics of this process by those of all server processes. */
  readFrom(source: () => Promise<string>): void {
    this.#read = () =>
      source().catch((error: unknown) => {
        throw new MetricsUnavailable(error);
      });
  }

  /** @returns Prometheus text. @throws MetricsUnavailable */
  async text(): Promise<string> {
    return (await Promise.all([this.#read(), this.service.metrics()])).join('\n');
  }
}

/** HTTP of the metrics. */
@ApiTags('operations')
@Controller('metrics')
export class MetricsController {
  constructor(private readonly page: MetricsPage) {}

  /**
   * Metrics of the service in the Prometheus text format
   * @remarks With several server processes on one host: the sum over all of them, whichever answers. Counters keep what
   * processes that ended had counted until they were last asked. Several hosts are several targets.
   */
  @Get()
  @AllowAnyKey()
  @Header('Content-Type', Registry.PROMETHEUS_CONTENT_TYPE)
  @ApiErrors(403)
  @ApiOkResponse({ description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } })
  getMetrics(): Promise<string> {
    return this.page.text();
  }
}

import { Controller, Get, Header } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { Registry } from 'prom-client';
import { AllowAnyKey } from '../../auth/access.js';
import { ApiErrors } from '../http/errors/error.dto.js';
import { MetricsPage } from './metrics-page.js';

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

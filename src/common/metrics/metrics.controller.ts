import { Controller, Get, Header } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { Registry } from 'prom-client';
import { AllowAnyKey } from '../../auth/access.js';
import { ApiErrors } from '../http/errors/error.dto.js';
import { MetricsPage } from './metrics-page.js';

/** HTTP of the metrics. */
@ApiTags('operations')
@Controller('metrics')
export class MetricsController {
  constructor(private readonly page: MetricsPage) {}

  @Get()
  @AllowAnyKey()
  @Header('Content-Type', Registry.PROMETHEUS_CONTENT_TYPE)
  @ApiOperation({
    operationId: 'getMetrics',
    summary: 'Metrics of the service in the Prometheus text format',
    description:
      'With several server processes on one host: the sum over all of them, whichever answers. Counters keep what ' +
      'processes that ended had counted until they were last asked. Several hosts are several targets.',
  })
  @ApiErrors(400, 403, 503)
  @ApiOkResponse({ description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } })
  get(): Promise<string> {
    return this.page.text();
  }
}

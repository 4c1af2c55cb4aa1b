import { Controller, Get, Header } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { Registry } from 'prom-client';
import { AllowAnyKey } from '../auth/access.js';
import { ApiErrors } from '../http/error.dto.js';

/** HTTP of the metrics. */
@ApiTags('operations')
@Controller('metrics')
export class MetricsController {
  constructor(private readonly registry: Registry) {}

  @Get()
  @AllowAnyKey()
  @Header('Content-Type', Registry.PROMETHEUS_CONTENT_TYPE)
  @ApiOperation({
    operationId: 'getMetrics',
    summary: 'Metrics of this process in the Prometheus text format',
  })
  @ApiErrors(400)
  @ApiOkResponse({ content: { 'text/plain': { schema: { type: 'string' } } } })
  get(): Promise<string> {
    return this.registry.metrics();
  }
}

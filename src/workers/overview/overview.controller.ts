import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { ApiErrors } from '../../common/http/errors/error.dto.js';
import { OverviewDto } from './overview.dto.js';
import { OverviewService } from './overview.service.js';

@ApiTags('operations')
@Controller('overview')
export class OverviewController {
  constructor(private readonly overview: OverviewService) {}

  @Get()
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'getOverview',
    summary: 'Count runs by state, the last hour by the minute, workers and their capacity',
    description: 'The counts are exact: the transactions that change runs update them.',
  })
  @ApiOkResponse({ type: OverviewDto, description: 'The counts.' })
  @ApiErrors(400, 503)
  get(): Promise<OverviewDto> {
    return this.overview.read();
  }
}

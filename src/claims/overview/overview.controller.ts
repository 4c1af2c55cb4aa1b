import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { OverviewDto } from './overview.dto.js';
import { OverviewService } from './overview.service.js';

@ApiTags('operations')
@Controller('overview')
export class OverviewController {
  constructor(private readonly overview: OverviewService) {}

  /**
   * Count runs by state, the last hour by the minute, workers and their capacity
   * @remarks The counts are exact: the transactions that change runs update them.
   */
  @Get()
  @AllowScopes('client')
  @ApiOkResponse({ type: OverviewDto, description: 'The counts.' })
  getOverview(): Promise<OverviewDto> {
    return this.overview.read();
  }
}

import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { CapacityQueryDto, CapacityReportDto, DEFAULT_SHAPES } from './capacity.dto.js';
import { CapacityService } from './capacity.service.js';

@ApiTags('operations')
@Controller('capacity')
export class CapacityController {
  constructor(private readonly capacity: CapacityService) {}

  /**
   * Compare the constraints of runs with the hardware of workers, for autoscalers
   * @remarks Counts at most 100,000 pending runs, those that claims take first; `at_least` says whether there may be more.
   */
  @Get()
  @AllowScopes('client')
  @ApiOkResponse({ type: CapacityReportDto, description: 'The report.' })
  getCapacity(@Query() { limit = DEFAULT_SHAPES }: CapacityQueryDto): Promise<CapacityReportDto> {
    return this.capacity.get(limit);
  }
}

import { Controller, Get, Param } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { AllowScopes } from '../../auth/access.js';
import { ApiResource } from '../../common/http/errors/error.dto.js';
import { RUN_ID_PARAM } from '../../common/http/api-examples.js';
import { RunExplanationDto } from './explain.dto.js';
import { ExplainService } from './explain.service.js';

@ApiTags('runs')
@Controller('runs')
@TakesDatabaseTurn()
export class ExplainController {
  constructor(private readonly explanations: ExplainService) {}

  /**
   * Explain the state of a run
   * @remarks For a pending run, it includes what a claim of each active worker would do.
   */
  @Get(':id/explain')
  @AllowScopes('client', 'worker')
  @ApiResource(RUN_ID_PARAM)
  @ApiOkResponse({ type: RunExplanationDto, description: 'The explanation.' })
  explainRun(@Param('id') id: string): Promise<RunExplanationDto> {
    return this.explanations.explain(id);
  }
}

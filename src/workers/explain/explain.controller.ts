import { Controller, Get, Param } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { ApiErrors } from '../../common/http/errors/error.dto.js';
import { RUN_ID_PARAM } from '../../common/http/api-examples.js';
import { RunExplanationDto } from './explain.dto.js';
import { ExplainService } from './explain.service.js';

@ApiTags('runs')
@Controller('runs')
export class ExplainController {
  constructor(private readonly explanations: ExplainService) {}

  @Get(':id/explain')
  @AllowScopes('client', 'worker')
  @ApiOperation({
    operationId: 'explainRun',
    summary: 'Explain the state of a run',
    description: 'For a pending run, it includes what a claim of each active worker would do.',
  })
  @ApiParam(RUN_ID_PARAM)
  @ApiOkResponse({ type: RunExplanationDto, description: 'The explanation.' })
  @ApiErrors(400, 404, 503)
  explain(@Param('id') id: string): Promise<RunExplanationDto> {
    return this.explanations.explain(id);
  }
}

import { Controller, Get, Param } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { ApiErrors } from '../../http/error.dto.js';
import { RunExplanationDto } from './explain.dto.js';
import { ExplainService } from './explain.service.js';

/** HTTP of the explanation of a run. */
@ApiTags('runs')
@Controller('runs')
export class ExplainController {
  constructor(private readonly explanations: ExplainService) {}

  @Get(':id/explain')
  @AllowScopes('client', 'worker')
  @ApiOperation({
    operationId: 'explainRun',
    summary: 'Explain why a run is where it is',
    description:
      'What a claim would do with a pending run is asked of the scheduling strategy itself, so the answer is what ' +
      'the claim does.',
  })
  @ApiParam({ name: 'id', description: 'Id of the run', format: 'uuid' })
  @ApiOkResponse({ type: RunExplanationDto })
  @ApiErrors(400, 404, 503)
  explain(@Param('id') id: string): Promise<RunExplanationDto> {
    return this.explanations.explain(id);
  }
}

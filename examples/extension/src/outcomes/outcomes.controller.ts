import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import { AllowScopes } from 'longshore/extension';
import { Repository } from 'typeorm';
import { RunOutcomeEntity } from './run-outcome.entity.js';

/** How many runs of an image have ended in a state. */
export class RunOutcomeDto {
  @ApiProperty({ example: 'longshore/word-count' })
  image: string;

  @ApiProperty({ example: 'COMPLETED' })
  state: string;

  @ApiProperty({ type: 'integer', example: 12 })
  runs: number;
}

/** HTTP of the outcomes. */
@ApiTags('run outcomes')
@Controller('run-outcomes')
export class OutcomesController {
  constructor(@InjectRepository(RunOutcomeEntity) private readonly outcomes: Repository<RunOutcomeEntity>) {}

  @Get()
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listRunOutcomes',
    summary: 'Count the runs that have ended, by image and state',
  })
  @ApiOkResponse({ type: [RunOutcomeDto] })
  list(): Promise<RunOutcomeDto[]> {
    return this.outcomes.find({ order: { image: 'ASC', state: 'ASC' } });
  }
}

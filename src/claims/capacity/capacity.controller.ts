import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import {
  CapacityQueryDto,
  CapacityReportDto,
  DEFAULT_SHAPES,
  MAX_WANTED,
  WantedQueryDto,
  WantedWorkersDto,
} from './capacity.dto.js';
import { MAX_TAGS } from '../../runs/dto/execution-options.dto.js';
import type { WorkerKind } from './wanted-workers.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
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

  /**
   * How many workers of one kind there should be, for autoscalers
   * @remarks Those that execute runs, and as many more as the pending runs need that such workers may get now: runs in back-off, before their
   * `start_at`, paused, or held back by a dependency or their concurrency key do not count. Under the strategy `fit`, runs are packed into workers
   * of the size; under others, a worker takes as many runs at a time as it has whole cores by `cpu`, else one.
   */
  @Get('wanted')
  @AllowScopes('client')
  @ApiOkResponse({ type: WantedWorkersDto, description: 'The number, and why.' })
  getWantedWorkers(@Query() query: WantedQueryDto): Promise<WantedWorkersDto> {
    return this.capacity.countWanted(readKind(query));
  }
}

/** @throws InvalidRequest */
function readKind({
  selector,
  cpu,
  ram_mb: ramMb,
  vram_mb: vramMb = 0,
  min = 0,
  max = MAX_WANTED,
}: WantedQueryDto): WorkerKind {
  const tags = selector === undefined ? [] : [...new Set(selector.split(','))];
  const problems = [
    ...(tags.includes('') || tags.length > MAX_TAGS
      ? [`selector must be 1 to ${MAX_TAGS} tags, separated by commas`]
      : []),
    ...(min > max ? ['min must be at most max'] : []),
  ];
  if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  return { tags, cpu, ramMb, vramMb, min, max };
}

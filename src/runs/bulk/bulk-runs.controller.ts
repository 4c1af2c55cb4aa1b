import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { ApiErrors } from '../../http/error.dto.js';
import { PrefersMinimal } from '../../http/prefer.js';
import type { TraceContext } from '../../tracing/trace-context.js';
import { ApiIdempotencyKey } from '../idempotency.js';
import { ApiTraceparent, TraceOf } from '../trace-of.js';
import { BulkKeysOf, type BulkKeys } from './bulk-keys.js';
import { MANUAL_RETRY, USER_CANCEL } from '../run-machine/run-event.js';
import { BulkRunsService } from './bulk-runs.service.js';
import { ChangeRunsDto, ChangeRunsResultDto } from './change-runs.dto.js';
import { CreateRunsDto, CreateRunsResultDto } from './create-runs.dto.js';

const ALL_AWAY =
  'When the service cannot work at the moment and nothing was done to any of them, the answer to all is 503.';

/** HTTP of many runs at once. */
@ApiTags('runs')
@Controller('runs')
export class BulkRunsController {
  constructor(private readonly bulk: BulkRunsService) {}

  @Post('batch')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'createRuns',
    summary: 'Create up to 100 runs',
    description:
      'Each run is created or refused by itself, with the answer that it would get alone; one bad item harms no other. ' +
      'When the service cannot work at the moment and no item was taken, the answer to all is 503.',
  })
  @ApiHeader({
    name: 'Prefer',
    required: false,
    description: '`return=minimal`: each run is answered by its id.',
  })
  @ApiIdempotencyKey(
    'Each item has a key of its own, made of this one and its place: sent again, it creates nothing twice and answers ' +
      'with the first run; with another content: 409 for that item.',
  )
  @ApiTraceparent()
  @ApiOkResponse({ type: CreateRunsResultDto })
  @ApiErrors(400, 413, 415, 503)
  async create(
    @Body() { runs }: CreateRunsDto,
    @PrefersMinimal() minimal: boolean,
    @BulkKeysOf() keys: BulkKeys,
    @TraceOf() trace: TraceContext | null,
  ): Promise<CreateRunsResultDto> {
    return { results: await this.bulk.create(runs, { keys, minimal, trace }) };
  }

  @Post('batch/cancel')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'cancelRuns',
    summary: 'Cancel up to 100 runs',
    description: `Each run is cancelled or refused by itself, as it would be alone. ${ALL_AWAY}`,
  })
  @ApiIdempotencyKey(
    'Each id has a key of its own, made of this one and its place: sent again, it is answered as it was.',
  )
  @ApiOkResponse({ type: ChangeRunsResultDto })
  @ApiErrors(400, 413, 415, 503)
  async cancel(@Body() { ids }: ChangeRunsDto, @BulkKeysOf() keys: BulkKeys): Promise<ChangeRunsResultDto> {
    return { results: await this.bulk.record(USER_CANCEL, ids, keys) };
  }

  @Post('batch/retry')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'retryRuns',
    summary: 'Open another attempt of up to 100 runs, whatever state they are in',
    description: `Each run is retried or refused by itself, as it would be alone. ${ALL_AWAY}`,
  })
  @ApiIdempotencyKey(
    'Each id has a key of its own, made of this one and its place: sent again, it opens no further attempt.',
  )
  @ApiOkResponse({ type: ChangeRunsResultDto })
  @ApiErrors(400, 413, 415, 503)
  async retry(@Body() { ids }: ChangeRunsDto, @BulkKeysOf() keys: BulkKeys): Promise<ChangeRunsResultDto> {
    return { results: await this.bulk.record(MANUAL_RETRY, ids, keys) };
  }
}

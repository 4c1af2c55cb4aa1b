import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { ApiBody, ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { AllowScopes, type Caller } from '../../auth/access.js';
import { CurrentCaller } from '../../auth/api-key.guard.js';
import { ApiErrors } from '../../common/http/errors/error.dto.js';
import { PrefersMinimal } from '../../common/http/request/handler-inputs.js';
import { BODY_EXAMPLES, namedExamples } from '../../common/http/api-examples.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { ApiIdempotencyKey, BulkKeysOf, type BulkKeys } from '../idempotency/idempotency.js';
import { ApiTraceparent, TraceOf } from '../http/request-headers.js';
import { MANUAL_RETRY, USER_CANCEL } from '../machine/run-event.js';
import { BulkRunsService } from './bulk-runs.service.js';
import { ChangeRunsDto, ChangeRunsResultDto, CreateRunsDto, CreateRunsResultDto } from './bulk-runs.dto.js';

const UNAVAILABLE = 'If the service is unavailable and has changed none of them, the response is 503.';

@ApiTags('bulk')
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
      'Each run is created or refused independently, with the result that it would have alone. ' +
      'If the service is unavailable and has created none, the response is 503.',
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
  @ApiBody({ type: CreateRunsDto, examples: namedExamples(BODY_EXAMPLES.createRuns) })
  @ApiOkResponse({ type: CreateRunsResultDto, description: 'One result per run.' })
  @ApiErrors(400, 413, 415, 503)
  async create(
    @Body() { runs }: CreateRunsDto,
    @PrefersMinimal() minimal: boolean,
    @BulkKeysOf() keys: BulkKeys,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
  ): Promise<CreateRunsResultDto> {
    return { results: await this.bulk.create(runs, { keys, minimal, trace, caller }) };
  }

  @Post('batch/cancel')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'cancelRuns',
    summary: 'Cancel up to 100 runs',
    description: `Each run is cancelled or refused independently. ${UNAVAILABLE}`,
  })
  @ApiIdempotencyKey(
    'Each id has a key of its own, made of this one and its place: sent again, it is answered as it was.',
  )
  @ApiBody({ type: ChangeRunsDto, examples: namedExamples(BODY_EXAMPLES.changeRuns) })
  @ApiOkResponse({ type: ChangeRunsResultDto, description: 'One result per run.' })
  @ApiErrors(400, 413, 415, 503)
  async cancel(
    @Body() { ids }: ChangeRunsDto,
    @BulkKeysOf() keys: BulkKeys,
    @CurrentCaller() caller: Caller,
  ): Promise<ChangeRunsResultDto> {
    return { results: await this.bulk.record(USER_CANCEL, ids, keys, caller) };
  }

  @Post('batch/retry')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'retryRuns',
    summary: 'Open another attempt of up to 100 runs, whatever state they are in',
    description: `Each run is retried or refused independently. ${UNAVAILABLE}`,
  })
  @ApiIdempotencyKey(
    'Each id has a key of its own, made of this one and its place: sent again, it opens no further attempt.',
  )
  @ApiBody({ type: ChangeRunsDto, examples: namedExamples(BODY_EXAMPLES.changeRuns) })
  @ApiOkResponse({ type: ChangeRunsResultDto, description: 'One result per run.' })
  @ApiErrors(400, 413, 415, 503)
  async retry(
    @Body() { ids }: ChangeRunsDto,
    @BulkKeysOf() keys: BulkKeys,
    @CurrentCaller() caller: Caller,
  ): Promise<ChangeRunsResultDto> {
    return { results: await this.bulk.record(MANUAL_RETRY, ids, keys, caller) };
  }
}

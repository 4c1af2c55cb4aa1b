import { Body, Controller, HttpCode, Post, Query, Res } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../../auth/access.js';
import { CurrentCaller } from '../../auth/api-key.guard.js';
import { sendWarnings, WARNING_HEADER } from '../../common/http/warning-header.js';
import { PrefersMinimal } from '../../common/http/request/handler-inputs.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { ApiIdempotencyKey, BulkKeysOf, type BulkKeys } from '../http/idempotency.js';
import { ApiTraceparent, TraceOf } from '../http/request-headers.js';
import { CreateRunQueryDto } from '../dto/run-requests.dto.js';
import { referenceWarnings } from '../options/plain-references.js';
import { MANUAL_RETRY, userCancel } from '../machine/run-event.js';
import { BulkRunsService } from './bulk-runs.service.js';
import {
  CancelRunsDto,
  ChangeRunsDto,
  ChangeRunsResultDto,
  CreateRunsDto,
  CreateRunsResultDto,
} from './bulk-runs.dto.js';

@ApiTags('bulk')
@Controller('runs')
export class BulkRunsController {
  constructor(private readonly bulk: BulkRunsService) {}

  /**
   * Create up to 100 runs
   * @remarks Each run is created or refused independently, with the result that it would have alone. If the service is
   * unavailable and has created none, the response is 503.
   */
  @Post('batch')
  @HttpCode(200)
  @AllowScopes('client')
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
  @ApiOkResponse({
    type: CreateRunsResultDto,
    description: 'One result per run.',
    headers: WARNING_HEADER,
  })
  async createRuns(
    @Query() { dry_run: isDryRun = false }: CreateRunQueryDto,
    @Body() { runs }: CreateRunsDto,
    @PrefersMinimal() minimal: boolean,
    @BulkKeysOf() keys: BulkKeys,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<CreateRunsResultDto> {
    const results = isDryRun
      ? await this.bulk.preview(runs, trace)
      : await this.bulk.create(runs, { keys, minimal, trace, caller });
    const warnings = results.flatMap(({ status }, index) =>
      status < 300
        ? referenceWarnings(Object(runs[index]), false).map((text) => `runs.${index}.${text}`)
        : [],
    );
    sendWarnings(response, warnings);
    return { results };
  }

  /**
   * Cancel up to 100 runs
   * @remarks Each run is cancelled or refused independently. If the service is unavailable and has changed none of them, the
   * response is 503.
   */
  @Post('batch/cancel')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiIdempotencyKey(
    'Each id has a key of its own, made of this one and its place: sent again, it is answered as it was.',
  )
  @ApiOkResponse({ type: ChangeRunsResultDto, description: 'One result per run.' })
  async cancelRuns(
    @Body() { ids, reason }: CancelRunsDto,
    @BulkKeysOf() keys: BulkKeys,
    @CurrentCaller() caller: Caller,
  ): Promise<ChangeRunsResultDto> {
    return { results: await this.bulk.record(userCancel(reason), ids, keys, caller) };
  }

  /**
   * Open another attempt of up to 100 runs, whatever state they are in
   * @remarks Each run is retried or refused independently. If the service is unavailable and has changed none of them, the
   * response is 503.
   */
  @Post('batch/retry')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiIdempotencyKey(
    'Each id has a key of its own, made of this one and its place: sent again, it opens no further attempt.',
  )
  @ApiOkResponse({ type: ChangeRunsResultDto, description: 'One result per run.' })
  async retryRuns(
    @Body() { ids }: ChangeRunsDto,
    @BulkKeysOf() keys: BulkKeys,
    @CurrentCaller() caller: Caller,
  ): Promise<ChangeRunsResultDto> {
    return { results: await this.bulk.record(MANUAL_RETRY, ids, keys, caller) };
  }
}

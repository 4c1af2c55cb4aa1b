import { Body, Controller, Get, HttpCode, Param, Post, Res } from '@nestjs/common';
import { ApiAcceptedResponse, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { AllowScopes, type Caller } from '../../auth/access.js';
import { CurrentCaller } from '../../auth/api-key.guard.js';
import { MissingScope } from '../../auth/auth.errors.js';
import { BULK_OPERATION_ID_PARAM } from '../../common/http/api-examples.js';
import { ApiErrors, ApiResource } from '../../common/http/errors/error.dto.js';
import { ApiIdempotencyKey, IdempotencyOf, markReplayed, REPLAYED } from '../http/idempotency.js';
import type { Idempotency } from '../idempotency/idempotency.repository.js';
import {
  BulkOperationDto,
  BulkPreviewDto,
  CreateBulkOperationDto,
  StartedBulkOperationDto,
  toBulkOperationDto,
} from './bulk-operations.dto.js';
import { BulkOperationsService } from './bulk-operations.service.js';

@ApiTags('bulk')
@Controller('bulk-operations')
@AllowScopes('client')
@TakesDatabaseTurn()
export class BulkOperationsController {
  constructor(private readonly operations: BulkOperationsService) {}

  /**
   * Change all runs that a filter matches
   * @remarks On the runs that match now, 100,000 at most; runs that are created later are not changed. It is carried out in the
   * background. A run that is in another state than the filter asks for by then is refused. Each run is changed once; what is already so
   * stays untouched. `retry` without a state in its filter is for FAILED and CANCELLED runs.
   */
  @Post()
  @HttpCode(202)
  @ApiIdempotencyKey(
    'The same key with the same body starts nothing and answers with the first operation; with another body: 409.',
  )
  @ApiAcceptedResponse({ type: StartedBulkOperationDto, description: 'It was started.', headers: REPLAYED })
  @ApiOkResponse({ type: BulkPreviewDto, description: 'With `dry_run`: what the filter matches now.' })
  @ApiErrors(409)
  async createBulkOperation(
    @Body() body: CreateBulkOperationDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StartedBulkOperationDto | BulkPreviewDto> {
    if (body.action === 'priority' && !caller.scopes.has('admin')) throw new MissingScope('admin');
    if (body.dry_run === true) {
      response.status(200);
      return this.operations.preview(body, caller);
    }
    const { replayed, ...started } = await this.operations.start(body, idempotency, caller);
    markReplayed(response, replayed);
    return started;
  }

  /**
   * Get a bulk operation and its progress
   * @remarks It is kept for 30 days after its end.
   */
  @Get(':id')
  @ApiResource(BULK_OPERATION_ID_PARAM)
  @ApiOkResponse({ type: BulkOperationDto, description: 'The operation.' })
  async getBulkOperation(@Param('id') id: string): Promise<BulkOperationDto> {
    return toBulkOperationDto(await this.operations.get(id));
  }

  /**
   * Stop a bulk operation
   * @remarks No run is changed after the response. What was changed stays changed; one that has ended stays as it is.
   */
  @Post(':id/stop')
  @HttpCode(200)
  @ApiResource(BULK_OPERATION_ID_PARAM)
  @ApiOkResponse({ type: BulkOperationDto, description: 'The operation.' })
  async stopBulkOperation(
    @Param('id') id: string,
    @CurrentCaller() caller: Caller,
  ): Promise<BulkOperationDto> {
    return toBulkOperationDto(await this.operations.stop(id, caller));
  }
}

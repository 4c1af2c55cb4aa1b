import { Body, Controller, HttpCode, Param, Post } from '@nestjs/common';
import { ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import { AllowBoundKeys, AllowScopes, type Caller } from '../auth/access.js';
import { assertActsAs, CurrentCaller } from '../auth/api-key.guard.js';
import { WORKER_ID_PARAM } from '../common/http/api-examples.js';
import { BulkRunsService } from '../runs/bulk/bulk-runs.service.js';
import { ReportEventsDto, ReportEventsResultDto } from '../runs/bulk/bulk-runs.dto.js';
import { ApiIdempotencyKey, BulkKeysOf, type BulkKeys } from '../runs/http/idempotency.js';

@ApiTags('bulk')
@Controller('workers')
export class ReportsController {
  constructor(private readonly bulk: BulkRunsService) {}

  /**
   * Report up to 100 events of the runs of a worker
   * @remarks Each event is recorded or refused independently, as if it were sent alone with `X-Worker-Id` and, if it has
   * an attempt, `X-Run-Attempt`. Events of one run are recorded in the order of the list. A key that is bound to workers
   * must give the attempt. If the service is unavailable and has recorded none, the response is 503.
   */
  @Post(':worker_id/events')
  @HttpCode(200)
  @AllowScopes('client', 'worker')
  @AllowBoundKeys()
  @ApiParam(WORKER_ID_PARAM)
  @ApiIdempotencyKey(
    'Each item has its own key, made of this one and its index: it is recorded once, however often it is sent; with ' +
      'another content it gets 409.',
  )
  @ApiOkResponse({ type: ReportEventsResultDto, description: 'One result per event.' })
  async reportEvents(
    @Param('worker_id') workerId: string,
    @Body() { events }: ReportEventsDto,
    @BulkKeysOf() keys: BulkKeys,
    @CurrentCaller() caller: Caller,
  ): Promise<ReportEventsResultDto> {
    assertActsAs(caller, workerId);
    return { results: await this.bulk.report(workerId, events, keys, caller) };
  }
}

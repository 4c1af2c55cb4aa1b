import { Body, Controller, HttpCode, Param, Post } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../../auth/access.js';
import { ApiErrors } from '../../http/error.dto.js';
import { BulkKeysOf, type BulkKeys } from '../../runs/bulk/bulk-keys.js';
import { BulkRunsService } from '../../runs/bulk/bulk-runs.service.js';
import { ReportEventsDto, ReportEventsResultDto } from '../../runs/bulk/report-events.dto.js';
import { ApiIdempotencyKey } from '../../runs/idempotency.js';

/** HTTP of what workers report. */
@ApiTags('workers')
@Controller('workers')
export class ReportsController {
  constructor(private readonly bulk: BulkRunsService) {}

  @Post(':worker_id/events')
  @HttpCode(200)
  @AllowScopes('client', 'worker')
  @ApiOperation({
    operationId: 'reportEvents',
    summary: 'Report up to 100 events of the runs of a worker',
    description:
      'Each event is recorded or refused by itself, as if it came alone with the worker in `X-Worker-Id` and its attempt, ' +
      'if it names one, in `X-Run-Attempt`. Events of one run are recorded in the order in which they stand here. ' +
      'When the service cannot work at the moment and no item was taken, the answer to all is 503.',
  })
  @ApiParam({ name: 'worker_id', description: 'The worker that reports' })
  @ApiIdempotencyKey(
    'Each item has a key of its own, made of this one and its place: sent again, it is not recorded twice; ' +
      'with another content: 409 for that item.',
  )
  @ApiOkResponse({ type: ReportEventsResultDto })
  @ApiErrors(400, 404, 413, 415, 503)
  async report(
    @Param('worker_id') workerId: string,
    @Body() { events }: ReportEventsDto,
    @BulkKeysOf() keys: BulkKeys,
  ): Promise<ReportEventsResultDto> {
    return { results: await this.bulk.report(workerId, events, keys) };
  }
}

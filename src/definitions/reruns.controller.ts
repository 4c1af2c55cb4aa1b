import { Controller, Param, Post, Query, Res } from '@nestjs/common';
import { ApiBody, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { RUN_ID_PARAM } from '../common/http/api-examples.js';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { ApiResource } from '../common/http/errors/error.dto.js';
import { createOptionalBodyDecorator } from '../common/http/request/handler-inputs.js';
import { readItem } from '../common/http/validation/bulk-items.js';
import { sendWarnings } from '../common/http/warning-header.js';
import { referenceWarnings } from '../runs/options/plain-references.js';
import { OpRunDto, RunPreviewDto } from '../runs/dto/op-run.dto.js';
import { CreateRunQueryDto } from '../runs/dto/run-requests.dto.js';
import { ApiDryRun, ApiIdempotentCreation, IdempotencyOf, sendRun } from '../runs/http/idempotency.js';
import { ApiTraceparent, TraceOf } from '../runs/http/request-headers.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { RerunDto } from './dto/rerun.dto.js';
import { RerunsService } from './reruns.service.js';

/** Parameter: how a run is repeated. */
const RerunRequest = createOptionalBodyDecorator((body) => readItem(RerunDto, body));

@ApiTags('runs')
@Controller('runs')
export class RerunsController {
  constructor(private readonly reruns: RerunsService) {}

  /**
   * Create a run like one that has ended
   * @remarks From what was asked for then, with changes: inputs of a run of a definition are filled in anew. Start, name and state
   * are not taken over. A body is not needed. With `dry_run=true` nothing is created.
   */
  @Post(':id/rerun')
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiResource(RUN_ID_PARAM)
  @ApiBody({ type: RerunDto, required: false })
  @ApiIdempotentCreation(OpRunDto)
  @ApiDryRun(RunPreviewDto)
  @ApiTraceparent()
  async rerunRun(
    @Param('id') id: string,
    @Query() { dry_run: isDryRun = false }: CreateRunQueryDto,
    @RerunRequest() body: RerunDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto> {
    const answer = isDryRun
      ? { run: await this.reruns.preview(id, body, { trace, caller }), replayed: false }
      : await this.reruns.rerun(id, body, { trace, idempotency, caller });
    if (isDryRun) response.status(200);
    // The changes have been checked.
    sendWarnings(response, referenceWarnings(Object(body.changes), false));
    return sendRun(response, answer);
  }
}

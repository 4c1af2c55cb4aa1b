import {
  Body,
  Controller,
  Get,
  HttpCode,
  Param,
  Patch,
  Post,
  Query,
  Res,
  type StreamableFile,
} from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { ApiErrors } from '../http/error.dto.js';
import { PrefersMinimal } from '../http/prefer.js';
import type { TraceContext } from '../tracing/trace-context.js';
import { AddEventDto } from './dto/add-event.dto.js';
import { CreateRunDto } from './dto/create-run.dto.js';
import { PolledEventsDto, PollEventsQueryDto } from './dto/event.dto.js';
import { OpAttemptDto } from './dto/op-attempt.dto.js';
import { GetRunQueryDto, OpRunDto } from './dto/op-run.dto.js';
import { UpdateRunDto } from './dto/update-run.dto.js';
import { answerList, answerPoll } from './json-stream.js';
import {
  answerRun,
  ApiIdempotentCreation,
  ApiIdempotentEvent,
  IdempotencyOf,
  markReplayed,
} from './idempotency.js';
import { ReportedBy, RUN_ATTEMPT_HEADER, WORKER_ID_HEADER } from './reporter.js';
import type { Reporter } from './run-machine/run-command.js';
import type { Idempotency } from './run-journal/key-book.js';
import { ListRunsQueryDto, OpRunListDto } from './run-list/list-runs.dto.js';
import { RunListService } from './run-list/run-list.service.js';
import { RunReader } from './run.reader.js';
import { RunsService } from './runs.service.js';
import { ApiTraceparent, TraceOf } from './trace-of.js';

const RUN_ID = { name: 'id', description: 'Id of the run', format: 'uuid' } as const;

/** HTTP of runs. */
@ApiTags('runs')
@Controller('runs')
export class RunsController {
  constructor(
    private readonly runs: RunsService,
    private readonly reader: RunReader,
    private readonly lists: RunListService,
  ) {}

  @Post()
  @AllowScopes('client')
  @ApiOperation({ operationId: 'createRun', summary: 'Create a run of a container image' })
  @ApiIdempotentCreation(OpRunDto)
  @ApiTraceparent()
  @ApiErrors(400, 409, 413, 415, 503)
  async create(
    @Body() body: CreateRunDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto> {
    return answerRun(response, await this.runs.create(body, trace, idempotency));
  }

  @Get()
  @AllowScopes('client', 'worker')
  @ApiOperation({ operationId: 'listRuns', summary: 'List runs, newest first' })
  @ApiOkResponse({ type: OpRunListDto })
  @ApiErrors(400, 503)
  list(@Query() query: ListRunsQueryDto): Promise<OpRunListDto> {
    return this.lists.list(query);
  }

  @Patch(':id')
  @AllowScopes('admin')
  @ApiOperation({
    operationId: 'patchRun',
    summary: 'Mutate a run directly, for emergencies',
    description: 'Leaves nothing on the timeline; the audit log keeps who did what.',
  })
  @ApiParam(RUN_ID)
  @ApiOkResponse({ type: OpRunDto })
  @ApiErrors(400, 404, 413, 415, 503)
  patch(
    @Param('id') id: string,
    @Body() body: UpdateRunDto,
    @CurrentCaller() caller: Caller,
  ): Promise<OpRunDto> {
    return this.runs.patch(id, body, caller.name);
  }

  @Get(':id')
  @AllowScopes('client', 'worker')
  @ApiOperation({ operationId: 'getRun', summary: 'Get a run' })
  @ApiParam(RUN_ID)
  @ApiOkResponse({ type: OpRunDto })
  @ApiErrors(400, 404, 503)
  get(@Param('id') id: string, @Query() query: GetRunQueryDto): Promise<OpRunDto> {
    return this.reader.getRun(id, query.include_events);
  }

  @Post(':id/retry')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'retryRun',
    summary: 'Open another attempt, whatever state the run is in',
    description: 'Records RETRIED. A run has 1,000 attempts at most.',
  })
  @ApiParam(RUN_ID)
  @ApiOkResponse({ type: OpRunDto })
  @ApiErrors(400, 404, 503)
  retry(@Param('id') id: string): Promise<OpRunDto> {
    return this.runs.retry(id);
  }

  @Post(':id/cancel')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'cancelRun',
    summary: 'Cancel a run that has not ended',
    description: 'Records CANCELLED. The worker stops the container when it sees the state.',
  })
  @ApiParam(RUN_ID)
  @ApiOkResponse({ type: OpRunDto })
  @ApiErrors(400, 404, 503)
  cancel(@Param('id') id: string): Promise<OpRunDto> {
    return this.runs.cancel(id);
  }

  @Get(':id/events')
  @AllowScopes('client', 'worker')
  @ApiOperation({ operationId: 'pollEvents', summary: 'Read the timeline of a run' })
  @ApiParam(RUN_ID)
  @ApiOkResponse({ type: PolledEventsDto })
  @ApiErrors(400, 404, 503)
  async pollEvents(
    @Param('id') id: string,
    @Query() query: PollEventsQueryDto,
  ): Promise<PolledEventsDto | StreamableFile> {
    return answerPoll(await this.reader.pollEvents(id, query.after ?? -1));
  }

  @Post(':id/events')
  @HttpCode(200)
  @AllowScopes('client', 'worker')
  @ApiOperation({
    operationId: 'addEvent',
    summary: 'Report an event of a run',
    description:
      'STARTED, PROGRESS, COMPLETED, FAILED, CANCELLED and RETRIED act on the run; other types are only recorded. ' +
      'A reporter that says who it is and which attempt it means is refused when the run is no longer its own.',
  })
  @ApiParam(RUN_ID)
  @ApiHeader({
    name: WORKER_ID_HEADER,
    required: false,
    description: 'The worker that reports; 409 when the run is not assigned to it.',
    schema: { type: 'string', minLength: 1, maxLength: 128 },
  })
  @ApiHeader({
    name: RUN_ATTEMPT_HEADER,
    required: false,
    description: 'The attempt that is reported on; 409 when it is not the current one.',
    schema: { type: 'integer', minimum: 1, maximum: 1000 },
  })
  @ApiHeader({
    name: 'Prefer',
    required: false,
    description: '`return=minimal`: the answer is 204 without a body.',
  })
  @ApiIdempotentEvent(OpRunDto)
  @ApiErrors(400, 404, 409, 413, 415, 503)
  async addEvent(
    @Param('id') id: string,
    @Body() body: AddEventDto,
    @ReportedBy() reporter: Reporter,
    @PrefersMinimal() minimal: boolean,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto | undefined> {
    if (!minimal)
      return answerRun(response, await this.runs.addEventAndRead(id, body, reporter, idempotency));
    const { replayed } = await this.runs.addEvent(id, body, reporter, idempotency);
    markReplayed(response, replayed);
    response.status(204);
    return undefined;
  }

  @Get(':id/attempts')
  @AllowScopes('client', 'worker')
  @ApiOperation({ operationId: 'listAttempts', summary: 'List the attempts of a run, oldest first' })
  @ApiParam(RUN_ID)
  @ApiOkResponse({ type: [OpAttemptDto] })
  @ApiErrors(400, 404, 503)
  async listAttempts(@Param('id') id: string): Promise<StreamableFile> {
    return answerList(await this.reader.listAttempts(id));
  }
}

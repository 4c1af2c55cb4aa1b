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
import { ApiBody, ApiHeader, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { DatabaseTurns, TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { AllowBoundKeys, AllowScopes, type Caller } from '../../auth/access.js';
import { CurrentCaller } from '../../auth/api-key.guard.js';
import { MissingScope } from '../../auth/auth.errors.js';
import { ApiResource } from '../../common/http/errors/error.dto.js';
import { ApiPage } from '../../common/http/next-page.js';
import { readItem } from '../../common/http/validation/bulk-items.js';
import { sendWarnings } from '../../common/http/warning-header.js';
import { createOptionalBodyDecorator, PrefersMinimal } from '../../common/http/request/handler-inputs.js';
import {
  EVENT_EXAMPLES,
  EXAMPLE_WORKER_ID,
  namedExamples,
  RUN_ID_PARAM,
} from '../../common/http/api-examples.js';
import { RequestAddress } from '../../common/http/request/request-address.js';
import { RunFiles } from '../files/run-files.js';
import { usesFiles } from '../files/requested-files.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { assertMayReport, RunsService } from '../runs.service.js';
import { AddEventDto, PolledEventsDto, PollEventsQueryDto } from '../dto/event.dto.js';
import { ListAttemptsQueryDto, OpAttemptDto, OpRunDto, RunPreviewDto } from '../dto/op-run.dto.js';
import {
  CancelRunDto,
  CreateRunDto,
  CreateRunQueryDto,
  GetRunQueryDto,
  RetryRunQueryDto,
  UpdateLabelsDto,
  UpdateRunDto,
  type RunWait,
} from '../dto/run-requests.dto.js';
import { referenceWarnings } from '../options/plain-references.js';
import { AllowHolders } from './held-run.guard.js';
import { answerPage, answerPoll } from './json-stream.js';
import {
  sendRun,
  ApiDryRun,
  ApiIdempotentCreation,
  ApiIdempotentEvent,
  IdempotencyOf,
  markReplayed,
} from './idempotency.js';
import {
  ApiTraceparent,
  HeldBy,
  ReportedBy,
  RUN_ATTEMPT_HEADER,
  TraceOf,
  type Fence,
  WORKER_ID_HEADER,
} from './request-headers.js';
import {
  ApiConditionalGet,
  ETAG_HEADER,
  IfNoneMatch,
  namesEtag,
  RunEtags,
  tagResponse,
  type Representation,
} from './run-etags.js';
import { RunPolls } from './run-polls.js';
import { isTerminal } from '../machine/run-state.js';
import type { Reporter } from '../machine/run-command.js';
import type { Idempotency } from '../idempotency/idempotency.repository.js';
import { ListRunsQueryDto, OpRunListDto } from '../dto/list-runs.dto.js';
import { readFilter } from '../reading/run-filter.js';
import { RunListReader } from '../reading/run-list.reader.js';
import { RunReader } from '../reading/run.reader.js';
import type { RunVersion } from '../reading/batched-run-reads.js';

/** Parameter: what a request says about a cancellation. */
const CancelRequest = createOptionalBodyDecorator((body) => readItem(CancelRunDto, body));

@ApiTags('runs')
@Controller('runs')
export class RunsController {
  constructor(
    private readonly runs: RunsService,
    private readonly reader: RunReader,
    private readonly lists: RunListReader,
    private readonly polls: RunPolls,
    private readonly etags: RunEtags,
    private readonly turns: DatabaseTurns,
    private readonly files: RunFiles,
  ) {}

  /**
   * Create a run of a container image
   * @remarks The run is PENDING until a worker claims it. It belongs to no definition. With `dry_run=true` nothing is created.
   */
  @Post()
  @AllowScopes('client')
  @ApiIdempotentCreation(OpRunDto)
  @ApiDryRun(RunPreviewDto)
  @ApiTraceparent()
  async createRun(
    @Query() { dry_run: isDryRun = false }: CreateRunQueryDto,
    @Body() body: CreateRunDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto> {
    sendWarnings(response, referenceWarnings(body, false));
    if (!isDryRun) return sendRun(response, await this.runs.create(body, { trace, idempotency, caller }));
    response.status(200);
    return this.runs.preview(body, { trace, caller });
  }

  /**
   * List runs, newest first
   * @remarks Every filter that is given must match. Continue with the id of the last run as `starting_after`, or go back
   * with the id of the first run as `ending_before`; only one of the two may be given.
   */
  @Get()
  @TakesDatabaseTurn()
  @AllowScopes('client', 'worker')
  @ApiOkResponse({ type: OpRunListDto, description: 'A page of runs.' })
  listRuns(@Query() query: ListRunsQueryDto, @CurrentCaller() caller: Caller): Promise<OpRunListDto> {
    return this.lists.list(query, readFilter(query, caller));
  }

  /**
   * Change a run directly, for emergencies
   * @remarks Adds no event to the timeline; the audit log records the change.
   */
  @Patch(':id')
  @AllowScopes('admin')
  @ApiResource(RUN_ID_PARAM)
  @ApiOkResponse({ type: OpRunDto, description: 'The changed run.' })
  patchRun(
    @Param('id') id: string,
    @Body() body: UpdateRunDto,
    @CurrentCaller() caller: Caller,
  ): Promise<OpRunDto> {
    return this.runs.patch(id, body, caller);
  }

  /**
   * Get a run
   * @remarks With the newest events of its timeline, unless `include_events` is false. With `wait`, the response is held until
   * the run is as `until` says, or the time is over. The worker that holds the run and says so by both headers of events gets
   * its files with URLs.
   */
  @Get(':id')
  @AllowScopes('client', 'worker')
  @AllowHolders()
  @ApiResource(RUN_ID_PARAM)
  @ApiConditionalGet()
  @ApiOkResponse({ type: OpRunDto, description: 'The run.', headers: ETAG_HEADER })
  async getRun(
    @Param('id') id: string,
    @Query() { include_events: includeEvents = true, wait = 0, until = 'ended' }: GetRunQueryDto,
    @IfNoneMatch() known: string | undefined,
    @HeldBy() holder: Fence | undefined,
    @RequestAddress() base: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto | undefined> {
    const shown = includeEvents ? 'run' : 'run without events';
    if (wait > 0) await this.polls.wait(response, id, this.#isDue(until, known, shown), wait * 1000);
    if (known !== undefined && (await this.#isCurrent(id, known, shown, response))) return undefined;
    const { run, version } = await this.reader.readRun(id, includeEvents, (read) =>
      this.turns.run(response, read),
    );
    const held = holder && usesFiles(run) ? await this.files.service.linkHeld(id, holder, base) : null;
    if (held) {
      response.setHeader('Cache-Control', 'no-store');
      return { ...run, ...held };
    }
    tagResponse(response, this.etags.of(version, shown));
    return run;
  }

  /**
   * Change the name and the labels of a run
   * @remarks In every state. Adds no event to the timeline; the audit log records the change.
   */
  @Patch(':id/labels')
  @AllowScopes('client')
  @ApiResource(RUN_ID_PARAM)
  @ApiOkResponse({ type: OpRunDto, description: 'The changed run.' })
  labelRun(
    @Param('id') id: string,
    @Body() body: UpdateLabelsDto,
    @CurrentCaller() caller: Caller,
  ): Promise<OpRunDto> {
    return this.runs.label(id, body, caller);
  }

  /**
   * Open another attempt, whatever state the run is in
   * @remarks Records RETRIED. A run has 1,000 attempts at most.
   */
  @Post(':id/retry')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiResource(RUN_ID_PARAM)
  @ApiOkResponse({ type: OpRunDto, description: 'The run, in its new attempt.' })
  retryRun(
    @Param('id') id: string,
    @Query() { dependents = false }: RetryRunQueryDto,
    @CurrentCaller() caller: Caller,
  ): Promise<OpRunDto> {
    return this.runs.retry(id, caller, dependents);
  }

  /**
   * Cancel a run that has not ended
   * @remarks Records CANCELLED. The worker stops the container when it sees the state. A body is not needed. An admin may
   * repeat it with `kill` while the worker still ends the program: that does not wait for the grace any more.
   */
  @Post(':id/cancel')
  @HttpCode(200)
  @AllowScopes('client')
  @ApiResource(RUN_ID_PARAM)
  @ApiBody({ type: CancelRunDto, required: false })
  @ApiOkResponse({ type: OpRunDto, description: 'The cancelled run.' })
  cancelRun(
    @Param('id') id: string,
    @CancelRequest() { reason, kill = false }: CancelRunDto,
    @CurrentCaller() caller: Caller,
  ): Promise<OpRunDto> {
    if (kill && !caller.scopes.has('admin')) throw new MissingScope('admin');
    if (kill) return this.runs.kill(id, caller, reason);
    return this.runs.cancel(id, caller, reason);
  }

  /**
   * Read the timeline of a run
   * @remarks Give the largest `id` that you have as `after` to read only newer events. With `wait`, the response is held
   * until there is one or the run has ended.
   */
  @Get(':id/events')
  @AllowScopes('client', 'worker')
  @AllowHolders()
  @ApiResource(RUN_ID_PARAM)
  @ApiConditionalGet()
  @ApiOkResponse({ type: PolledEventsDto, description: 'The events, oldest first.', headers: ETAG_HEADER })
  async pollEvents(
    @Param('id') id: string,
    @Query() { after = -1, include_sender: withSender = false, wait = 0 }: PollEventsQueryDto,
    @CurrentCaller() caller: Caller,
    @IfNoneMatch() known: string | undefined,
    @Res({ passthrough: true }) response: Response,
  ): Promise<PolledEventsDto | StreamableFile | undefined> {
    if (withSender && !caller.scopes.has('admin')) throw new MissingScope('admin');
    if (wait > 0) {
      const isDue = ({ eventCount, state }: RunVersion): boolean =>
        eventCount > after + 1 || isTerminal(state);
      await this.polls.wait(response, id, isDue, wait * 1000);
    }
    if (known !== undefined && (await this.#isCurrent(id, known, 'timeline', response))) return undefined;
    const { events, version } = await this.reader.readTimeline(id, after, withSender);
    tagResponse(response, this.etags.of(version, 'timeline'));
    return Array.isArray(events) ? { events } : answerPoll(this.turns.runEach(response, events));
  }

  /** Whether a version of a run is what a request waits for. */
  #isDue(until: RunWait, known: string | undefined, shown: Representation): (run: RunVersion) => boolean {
    if (until === 'ended') return ({ state }) => isTerminal(state);
    if (until === 'started') return ({ state }) => state === 'RUNNING' || isTerminal(state);
    let before = known;
    return (run) => !namesEtag((before ??= this.etags.of(run, shown)), this.etags.of(run, shown));
  }

  /** Answers 304 when the client knows the current version. */
  async #isCurrent(id: string, known: string, shown: Representation, response: Response): Promise<boolean> {
    const etag = this.etags.of(await this.reader.getVersion(id), shown);
    if (!namesEtag(known, etag)) return false;
    tagResponse(response, etag);
    response.status(304);
    return true;
  }

  /**
   * Report an event of a run
   * @remarks STARTED, PROGRESS, COMPLETED, FAILED, CANCELLED and RETRIED change the run; other types are only recorded.
   * With `X-Worker-Id` and `X-Run-Attempt`, an event of a worker that has lost the run is refused. STARTED, COMPLETED and
   * FAILED require the scope `worker`; CANCELLED and RETRIED require `client`, or `worker` with both headers. A key that
   * is bound to workers must send both headers.
   */
  @Post(':id/events')
  @HttpCode(200)
  @AllowScopes('client', 'worker')
  @AllowBoundKeys()
  @ApiResource(RUN_ID_PARAM)
  @ApiHeader({
    name: WORKER_ID_HEADER,
    required: false,
    description: 'The worker that reports; 409 if the run is not assigned to it.',
    schema: { type: 'string', minLength: 1, maxLength: 128, example: EXAMPLE_WORKER_ID },
  })
  @ApiHeader({
    name: RUN_ATTEMPT_HEADER,
    required: false,
    description: 'The attempt of the event; 409 if it is not the current one.',
    schema: { type: 'integer', minimum: 1, maximum: 1000, example: 1 },
  })
  @ApiHeader({
    name: 'Prefer',
    required: false,
    description: '`return=minimal`: the answer is 204 without a body.',
  })
  @ApiBody({
    schema: { $ref: '#/components/schemas/AddEventRequest' },
    examples: namedExamples(EVENT_EXAMPLES),
  })
  @ApiIdempotentEvent(OpRunDto)
  async addEvent(
    @Param('id') id: string,
    @Body() body: AddEventDto,
    @CurrentCaller() caller: Caller,
    @ReportedBy() reporter: Reporter,
    @PrefersMinimal() minimal: boolean,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto | undefined> {
    assertMayReport(caller, body.type, reporter);
    const options = { idempotency, caller };
    if (!minimal) return sendRun(response, await this.runs.addEventAndRead(id, body, reporter, options));
    const { replayed } = await this.runs.addEvent(id, body, reporter, options);
    markReplayed(response, replayed);
    response.status(204);
    return undefined;
  }

  /**
   * List the attempts of a run, oldest first
   * @remarks The last one is the current attempt. Large attempts come in several pages: follow the header `Link`.
   */
  @Get(':id/attempts')
  @TakesDatabaseTurn()
  @AllowScopes('client', 'worker')
  @AllowHolders()
  @ApiResource(RUN_ID_PARAM)
  @ApiPage(OpAttemptDto, 'The attempts, or a page of them.')
  async listAttempts(
    @Param('id') id: string,
    @Query() query: ListAttemptsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.reader.listAttempts(id, query), ({ attempt }) => attempt);
  }
}

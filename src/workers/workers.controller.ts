import {
  Body,
  Controller,
  Delete,
  Get,
  HttpCode,
  Param,
  Post,
  Query,
  Res,
  type StreamableFile,
} from '@nestjs/common';
import { ApiNoContentResponse, ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { AllowBoundKeys, AllowScopes, type Caller } from '../auth/access.js';
import { assertActsAs, assertCovers, CurrentCaller } from '../auth/api-key.guard.js';
import { ApiErrors, ApiResource } from '../common/http/errors/error.dto.js';
import { WORKER_ID_PARAM } from '../common/http/api-examples.js';
import { BodyQuota } from '../common/http/request/body-quota.js';
import { ApiPage } from '../common/http/next-page.js';
import { answerPage } from '../runs/http/json-stream.js';
import { Settings } from '../config/settings.js';
import { isRunId } from '../runs/machine/new-id.js';
import { ConcurrencySlots } from '../runs/queue/concurrency-slots.js';
import { HeartbeatDto, HeartbeatQueryDto, toHeartbeat } from './dto/heartbeat.dto.js';
import {
  HeartbeatAnswerDto,
  HeldRunsDto,
  toHeldRunDto,
  toLostOpDto,
  ListWorkersQueryDto,
  toWorkerDto,
  WorkerDto,
} from './dto/worker.dto.js';
import { HeldHeartbeats, namedRunsOf, type NamedRuns } from './heartbeats/held-heartbeats.js';
import type { PooledWorker } from './pool/worker-pool.js';
import { WorkersService } from './workers.service.js';
import { BulkRunsService } from '../runs/bulk/bulk-runs.service.js';
import { ReportEventsDto, ReportEventsResultDto } from '../runs/bulk/bulk-runs.dto.js';
import { ApiIdempotencyKey, BulkKeysOf, type BulkKeys } from '../runs/http/idempotency.js';

@ApiTags('workers')
@Controller('workers')
export class WorkersController {
  constructor(
    private readonly workers: WorkersService,
    private readonly held: HeldHeartbeats,
    private readonly slots: ConcurrencySlots,
    private readonly bodies: BodyQuota,
    private readonly settings: Settings,
  ) {}

  /**
   * List all registered workers, active or not
   * @remarks Ordered by id. Many come in several pages: follow the header `Link`.
   */
  @Get()
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiPage(WorkerDto, 'The workers, or a page of them.')
  async listWorkers(
    @Query() { limit = Infinity, after = '' }: ListWorkersQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    const { items, hasMore } = await this.workers.listPage(limit, after);
    return answerPage(response, { items: items.map(toWorkerDto), hasMore }, ({ id }) => id);
  }

  /**
   * Register a worker or refresh it
   * @remarks A worker must send heartbeats more often than `X-Worker-Timeout`, else it loses its runs. The response names
   * those of `running_ops` that the worker does not hold any more: it stops them, and names them in `ending_ops` until
   * their programs have ended. With `wait`, the heartbeat is recorded
   * at once and its response delayed until there is such a run, or one to be killed. A worker that gets a response early, without such a run,
   * pauses for a second or two. 403 names the tags and capabilities to which the API key is not bound.
   */
  @Post('heartbeat')
  @HttpCode(200)
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiOkResponse({
    type: HeartbeatAnswerDto,
    description: 'The worker, and the runs that it has lost.',
    headers: {
      'X-Worker-Timeout': {
        description: 'Seconds without a heartbeat after which the worker is stale.',
        schema: { type: 'number' },
      },
      'X-Max-Body-Bytes': {
        description: 'Limit of the body of a request, in bytes. Larger events are refused with 413.',
        schema: { type: 'integer' },
      },
    },
  })
  async sendHeartbeat(
    @Body() body: HeartbeatDto,
    @Query() { wait = 0 }: HeartbeatQueryDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<HeartbeatAnswerDto> {
    assertActsAs(caller, body.worker_id);
    assertCovers(caller, { tags: body.tags, capabilities: body.capabilities ?? [] });
    const { worker, named } = await this.#record(body, response.req, caller);
    response.setHeader('X-Worker-Timeout', String(this.settings.workerTimeout));
    response.setHeader('X-Max-Body-Bytes', String(this.settings.maxBodyBytes));
    const { lost, killed } = await this.held.findLost(named, wait * 1000, caller, response);
    return {
      ...toWorkerDto({ worker }),
      ...(lost !== null && { lost_ops: lost.map(toLostOpDto) }),
      ...(killed.length > 0 && { kill_ops: [...killed] }),
    };
  }

  /**
   * List the attempts that a worker holds
   * @remarks For a worker that starts: what an earlier process of it claimed and did not end, with the position at which the log
   * goes on. By the ids of the runs, the first thousand, which is as many as a heartbeat names.
   */
  @Get(':worker_id/runs')
  @TakesDatabaseTurn()
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiParam(WORKER_ID_PARAM)
  @ApiOkResponse({ type: HeldRunsDto, description: 'The attempts; none of an unknown worker.' })
  async listHeldRuns(
    @Param('worker_id') workerId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<HeldRunsDto> {
    assertActsAs(caller, workerId);
    return { runs: (await this.workers.listHeld(workerId)).map(toHeldRunDto) };
  }

  /**
   * Remove a worker from the list
   * @remarks For the clean end of a worker; an unknown worker gets 204, too. A later heartbeat registers it again. A
   * worker that is not removed stays in the list, stale, for 24 hours; one that never had a run for one hour.
   */
  @Delete(':worker_id')
  @TakesDatabaseTurn()
  @HttpCode(204)
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiParam(WORKER_ID_PARAM)
  @ApiNoContentResponse({ description: 'The worker is not in the list.' })
  @ApiErrors(409)
  async removeWorker(@Param('worker_id') workerId: string, @CurrentCaller() caller: Caller): Promise<void> {
    assertActsAs(caller, workerId);
    await this.workers.remove(workerId);
  }

  /**
   * Stop a worker from claiming runs
   * @remarks The worker finishes the runs that it has.
   */
  @Post(':worker_id/drain')
  @TakesDatabaseTurn()
  @HttpCode(200)
  @AllowScopes('admin')
  @ApiResource(WORKER_ID_PARAM)
  @ApiOkResponse({ type: WorkerDto, description: 'The worker.' })
  async drainWorker(
    @Param('worker_id') workerId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<WorkerDto> {
    return toWorkerDto(await this.workers.setDraining(workerId, true, caller));
  }

  /**
   * Let a drained worker claim again
   * @remarks Ends a drain.
   */
  @Post(':worker_id/resume')
  @TakesDatabaseTurn()
  @HttpCode(200)
  @AllowScopes('admin')
  @ApiResource(WORKER_ID_PARAM)
  @ApiOkResponse({ type: WorkerDto, description: 'The worker.' })
  async resumeWorker(
    @Param('worker_id') workerId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<WorkerDto> {
    return toWorkerDto(await this.workers.setDraining(workerId, false, caller));
  }

  /** Records a heartbeat, and drops its body: the response may be held open. */
  async #record(
    body: HeartbeatDto,
    request: Request,
    caller: Caller,
  ): Promise<{ worker: PooledWorker; named: NamedRuns }> {
    const heartbeat = toHeartbeat(body, this.settings.workerAwayMax);
    const worker = await this.workers.heartbeat(heartbeat, caller.keyId);
    const ending = (body.ending_ops ?? [])
      .filter(({ id }) => isRunId(id))
      .map(({ id, attempt }) => ({ id, attempt }));
    const reported = heartbeat.runningOps && [...heartbeat.runningOps, ...ending];
    await this.slots.noteHeartbeat(worker.id, reported);
    this.bodies.forget(request);
    // Nest keeps the arguments of the handler until the response.
    delete body.running_ops;
    return { worker, named: { ...namedRunsOf(heartbeat), ending } };
  }
}

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

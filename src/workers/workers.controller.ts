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
import {
  ApiBody,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { AllowBoundKeys, AllowScopes, type Caller } from '../auth/access.js';
import { assertActsAs, assertCovers, CurrentCaller } from '../auth/api-key.guard.js';
import { ApiErrors } from '../common/http/errors/error.dto.js';
import { BODY_EXAMPLES, namedExamples, WORKER_ID_PARAM } from '../common/http/api-examples.js';
import { BodyQuota } from '../common/http/request/body-quota.js';
import { ApiPage } from '../common/http/next-page.js';
import { answerPage } from '../runs/http/json-stream.js';
import { Settings } from '../config/settings.js';
import { ConcurrencySlots } from '../runs/queue/concurrency-slots.js';
import { HeartbeatDto, HeartbeatQueryDto, toHeartbeat } from './dto/heartbeat.dto.js';
import { HeartbeatAnswerDto, toLostOpDto } from './dto/heartbeat-answer.dto.js';
import { ListWorkersQueryDto, toWorkerDto, WorkerDto } from './dto/worker.dto.js';
import { HeldHeartbeats, namedRunsOf, type NamedRuns } from './heartbeats/held-heartbeats.js';
import type { PooledWorker } from './pool/worker-pool.js';
import { WorkersService } from './workers.service.js';

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

  @Get()
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listWorkers',
    summary: 'List all registered workers, active or not',
    description: 'Ordered by id. Many come in several pages: follow the header `Link`.',
  })
  @ApiPage(WorkerDto, 'The workers, or a page of them.')
  @ApiErrors(400, 503)
  async list(
    @Query() { limit = Infinity, after = '' }: ListWorkersQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    const { items, hasMore } = await this.workers.listPage(limit, after);
    return answerPage(response, { items: items.map(toWorkerDto), hasMore }, ({ id }) => id);
  }

  @Post('heartbeat')
  @HttpCode(200)
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiOperation({
    operationId: 'sendHeartbeat',
    summary: 'Register a worker or refresh it',
    description:
      'A worker must send heartbeats more often than `X-Worker-Timeout`, else it loses its runs. The response names those of ' +
      '`running_ops` that the worker does not hold any more: it stops them. With `wait`, the heartbeat is recorded at once ' +
      'and its response delayed until there is such a run. A worker that gets a response early, without such a run, pauses ' +
      'for a second or two. 403 names the tags and capabilities to which the API key is not bound.',
  })
  @ApiBody({ type: HeartbeatDto, examples: namedExamples(BODY_EXAMPLES.sendHeartbeat) })
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
  @ApiErrors(400, 413, 415, 429, 503)
  async heartbeat(
    @Body() body: HeartbeatDto,
    @Query() { wait = 0 }: HeartbeatQueryDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<HeartbeatAnswerDto> {
    assertActsAs(caller, body.worker_id);
    assertCovers(caller, { tags: body.tags, capabilities: body.capabilities ?? [] });
    const { worker, named } = await this.#record(body, response.req);
    response.setHeader('X-Worker-Timeout', String(this.settings.workerTimeout));
    response.setHeader('X-Max-Body-Bytes', String(this.settings.maxBodyBytes));
    const lost = await this.held.findLost(named, wait * 1000, caller, response);
    return { ...toWorkerDto({ worker }), ...(lost !== null && { lost_ops: lost.map(toLostOpDto) }) };
  }

  @Delete(':worker_id')
  @HttpCode(204)
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiOperation({
    operationId: 'removeWorker',
    summary: 'Remove a worker from the list',
    description:
      'For the clean end of a worker; an unknown worker gets 204, too. A later heartbeat registers it again. A worker that ' +
      'is not removed stays in the list, stale, for 24 hours.',
  })
  @ApiParam(WORKER_ID_PARAM)
  @ApiNoContentResponse({ description: 'The worker is not in the list.' })
  @ApiErrors(400, 409, 503)
  async remove(@Param('worker_id') workerId: string, @CurrentCaller() caller: Caller): Promise<void> {
    assertActsAs(caller, workerId);
    await this.workers.remove(workerId);
  }

  @Post(':worker_id/drain')
  @HttpCode(200)
  @AllowScopes('admin')
  @ApiOperation({
    operationId: 'drainWorker',
    summary: 'Stop a worker from claiming runs',
    description: 'The worker finishes the runs that it has.',
  })
  @ApiParam(WORKER_ID_PARAM)
  @ApiOkResponse({ type: WorkerDto, description: 'The worker.' })
  @ApiErrors(400, 404, 503)
  async drain(@Param('worker_id') workerId: string, @CurrentCaller() caller: Caller): Promise<WorkerDto> {
    return toWorkerDto(await this.workers.setDraining(workerId, true, caller));
  }

  @Post(':worker_id/resume')
  @HttpCode(200)
  @AllowScopes('admin')
  @ApiOperation({
    operationId: 'resumeWorker',
    summary: 'Let a drained worker claim again',
    description: 'Ends a drain.',
  })
  @ApiParam(WORKER_ID_PARAM)
  @ApiOkResponse({ type: WorkerDto, description: 'The worker.' })
  @ApiErrors(400, 404, 503)
  async resume(@Param('worker_id') workerId: string, @CurrentCaller() caller: Caller): Promise<WorkerDto> {
    return toWorkerDto(await this.workers.setDraining(workerId, false, caller));
  }

  /** Records a heartbeat, and drops its body: the response may be held open. */
  async #record(body: HeartbeatDto, request: Request): Promise<{ worker: PooledWorker; named: NamedRuns }> {
    const heartbeat = toHeartbeat(body);
    const worker = await this.workers.heartbeat(heartbeat);
    await this.slots.noteHeartbeat(worker.id, heartbeat.runningOps);
    this.bodies.forget(request);
    // Nest keeps the arguments of the handler until the response.
    delete body.running_ops;
    return { worker, named: namedRunsOf(heartbeat) };
  }
}

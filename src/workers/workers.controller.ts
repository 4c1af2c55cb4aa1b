import { Body, Controller, Get, HttpCode, Param, Post, Res } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes } from '../auth/access.js';
import { ApiErrors } from '../http/error.dto.js';
import { Settings } from '../settings/settings.js';
import { ClaimService } from './claim.service.js';
import { HeartbeatDto, toHeartbeat } from './dto/heartbeat.dto.js';
import { ClaimedOpsDto, toWorkerOpRunDto } from './dto/worker-op-run.dto.js';
import { toWorkerDto, WorkerDto } from './dto/worker.dto.js';
import { WorkerPool } from './pool/worker-pool.js';

/** HTTP of workers. */
@ApiTags('workers')
@Controller('workers')
export class WorkersController {
  constructor(
    private readonly pool: WorkerPool,
    private readonly claims: ClaimService,
    private readonly settings: Settings,
  ) {}

  @Get()
  @AllowScopes('client')
  @ApiOperation({ operationId: 'listWorkers', summary: 'List all registered workers, active or not' })
  @ApiOkResponse({ type: [WorkerDto] })
  @ApiErrors(400, 503)
  async list(): Promise<WorkerDto[]> {
    return (await this.pool.list()).map(toWorkerDto);
  }

  @Post('heartbeat')
  @HttpCode(200)
  @AllowScopes('worker')
  @ApiOperation({ operationId: 'sendHeartbeat', summary: 'Register a worker or refresh it' })
  @ApiOkResponse({
    type: WorkerDto,
    headers: {
      'X-Worker-Timeout': {
        description: 'Seconds of silence after which the worker counts as lost',
        schema: { type: 'number' },
      },
    },
  })
  @ApiErrors(400, 413, 415, 503)
  async heartbeat(
    @Body() body: HeartbeatDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<WorkerDto> {
    const worker = await this.pool.heartbeat(toHeartbeat(body));
    response.setHeader('X-Worker-Timeout', String(this.settings.workerTimeout));
    return toWorkerDto(worker);
  }

  @Post(':worker_id/claim')
  @HttpCode(200)
  @AllowScopes('worker')
  @ApiOperation({ operationId: 'claimRuns', summary: 'Ask for work' })
  @ApiParam({ name: 'worker_id', description: 'The worker that asks' })
  @ApiOkResponse({ type: ClaimedOpsDto })
  @ApiErrors(400, 404, 503)
  async claim(
    @Param('worker_id') workerId: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<ClaimedOpsDto> {
    const claimed = await this.claims.claim(workerId, () => !response.closed && !response.destroyed);
    return { ops: claimed.map(toWorkerOpRunDto) };
  }
}

import { ApiProperty, ApiPropertyOptional, ApiSchema } from '@nestjs/swagger';
import { QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import type { WorkerStatus } from '../workers.service.js';
import { ContainerEngineDto, EngineJobsDto, FreeResourcesDto, ResourcesDto } from './resources.dto.js';
import {
  EndingOpDto,
  NotClaimingDto,
  RunningOpDto,
  toNotClaimingDtos,
  toRunningOp,
  toUnableDtos,
  UnableDto,
} from './heartbeat.dto.js';
import { RUN_STATES, type RunState } from '../../runs/machine/run-state.js';
import type { HeldAttempt, LostRun } from '../../runs/storage/held-run.repository.js';

export class ListWorkersQueryDto {
  /** Largest number of workers in the page; all of them unless given. */
  @QueryInteger({ min: 1, max: 1000 })
  limit?: number;

  /** Id of a worker: the page starts after it. */
  @QueryString({ max: 128 })
  after?: string;
}

/** Ids of assigned runs in a response. */
const ASSIGNED_IDS = 100;

@ApiSchema({ name: 'AssignedRuns', description: 'The runs that are assigned to a worker.' })
export class AssignedRunsDto {
  @ApiProperty({ type: 'integer' }) count: number;
  /** Ids of the oldest 100 of them. */
  ids: string[];
}

@ApiSchema({ name: 'Worker', description: 'A registered worker.' })
export class WorkerDto {
  id: string;
  @ApiProperty({ type: ResourcesDto }) resources: ResourcesDto;
  tags: string[];
  /** What it supports beyond plain runs. */
  capabilities: string[];
  /** Only of a launcher, as in its newest heartbeat. */
  @ApiPropertyOptional({ type: EngineJobsDto }) engine?: EngineJobsDto;
  /** Absent: it has none, or does not say. */
  @ApiPropertyOptional({ type: ContainerEngineDto }) container_engine?: ContainerEngineDto;
  /**
   * Runs that the worker has last reported to be executing. Other workers may have those of a stale worker: see `assigned`.
   * Inputs, constraints and further runs are left out where all come to more
   * than the setting SERVICE_MAX_WORKER_BYTES.
   */
  @ApiProperty({ type: [RunningOpDto] }) running_ops: RunningOpDto[];
  /** Time of the first heartbeat, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) created_at: string;
  /** Time of the newest heartbeat, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) last_heartbeat_at: string;
  /** True while the newest heartbeat lies within the worker timeout and the worker is not away. */
  is_active: boolean;
  /** Until when it keeps its runs without heartbeats, as its newest one says, ISO 8601; absent: it is not away. */
  @ApiPropertyOptional({ type: 'string', format: 'date-time' }) away_until?: string;
  /** True while an admin has stopped the worker from claiming. */
  draining: boolean;
  /** Why it does not claim, as in its newest heartbeat; empty: it claims, or does not say. */
  @ApiProperty({ type: [NotClaimingDto] }) not_claiming: NotClaimingDto[];
  /** What its machine is unable to do at present, as in its newest heartbeat; empty: nothing, or it does not say. */
  @ApiProperty({ type: [UnableDto] }) unable: UnableDto[];
  /** Absent in the response to a heartbeat. */
  @ApiPropertyOptional({ type: FreeResourcesDto }) free?: FreeResourcesDto;
  /** The runs that are assigned to it at present. Absent in the response to a heartbeat. */
  @ApiPropertyOptional({ type: AssignedRunsDto }) assigned?: AssignedRunsDto;
}

/** The worker as clients see it. Without `free` and `assigned`, these are left out. */
export function toWorkerDto({
  worker,
  free,
  assigned,
}: Pick<WorkerStatus, 'worker'> & Partial<WorkerStatus>): WorkerDto {
  const dto: WorkerDto = {
    id: worker.id,
    resources: {
      cpu_cores: worker.cpuCores,
      ram_mb: worker.ramMb,
      gpus: worker.gpus.map(({ id, vramMb, tags }) => ({ id, vram_mb: vramMb, tags: [...tags] })),
    },
    tags: [...worker.tags],
    capabilities: [...worker.capabilities],
    running_ops: worker.runningOps.map(toRunningOp),
    created_at: worker.createdAt.toISOString(),
    last_heartbeat_at: worker.lastHeartbeatAt.toISOString(),
    is_active: worker.isActive,
    draining: worker.isDraining,
    not_claiming: toNotClaimingDtos(worker.notClaiming),
    unable: toUnableDtos(worker.unable),
  };
  if (worker.awayUntil) dto.away_until = worker.awayUntil.toISOString();
  if (worker.engine) dto.engine = { ...worker.engine };
  if (worker.containerEngine) dto.container_engine = { ...worker.containerEngine };
  if (free) {
    const gpus = free.gpus.map(({ id, vramMb }) => ({ id, vram_mb: vramMb }));
    const { cpuMillis, ramMb } = free;
    dto.free = { cpu_cores: Math.floor(cpuMillis / 1000), cpu_millis: cpuMillis, ram_mb: ramMb, gpus };
  }
  if (assigned) dto.assigned = { count: assigned.length, ids: assigned.slice(0, ASSIGNED_IDS) };
  return dto;
}

@ApiSchema({
  name: 'LostOp',
  description: 'A reported run that is not assigned to the worker any more, or not at the reported attempt.',
})
export class LostOpDto {
  id: string;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' }) state: RunState;
  /** The current attempt, from 1. */
  @ApiProperty({ type: 'integer' }) attempt: number;
  /** The worker of the current attempt; null: none. */
  @ApiProperty({ type: 'string', nullable: true }) worker_id: string | null;
}

@ApiSchema({ name: 'HeartbeatResponse', description: 'A worker, and the runs that it has lost.' })
export class HeartbeatAnswerDto extends WorkerDto {
  /**
   * Those of `running_ops` in the request that the worker does not hold any more; unknown runs are not named. Absent when the
   * service could not find out, which says nothing about the runs.
   */
  @ApiPropertyOptional({ type: [LostOpDto] }) lost_ops?: LostOpDto[];
  /** Those of `ending_ops` in the request whose programs the worker kills now, as an admin wants; absent: none. */
  @ApiPropertyOptional({ type: [EndingOpDto] }) kill_ops?: EndingOpDto[];
}

export function toLostOpDto({ id, state, attempt, workerId }: LostRun): LostOpDto {
  return { id, state, attempt, worker_id: workerId };
}

@ApiSchema({ name: 'HeldRun', description: 'An attempt that a worker holds.' })
export class HeldRunDto {
  id: string;
  /** From 1. */
  @ApiProperty({ type: 'integer' }) attempt: number;
  /** Number of the chunk that its log expects next. */
  @ApiProperty({ type: 'integer', minimum: 0 }) next_chunk: number;
  /** Number of the line that its log expects next. */
  @ApiProperty({ type: 'integer', minimum: 0 }) next_line: number;
  /** The cursor of the newest stored chunk that had one; absent: none had. */
  cursor?: string;
}

@ApiSchema({ name: 'HeldRuns', description: 'The attempts that a worker holds.' })
export class HeldRunsDto {
  @ApiProperty({ type: [HeldRunDto] }) runs: HeldRunDto[];
}

export function toHeldRunDto({ id, attempt, log }: HeldAttempt): HeldRunDto {
  const cursor = log?.cursor ?? null;
  return {
    id,
    attempt,
    next_chunk: log?.nextChunk ?? 0,
    next_line: log?.nextLine ?? 0,
    ...(cursor !== null && { cursor }),
  };
}

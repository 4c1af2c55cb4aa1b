import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { FILE_STORE_STATES, type FileStoreHealth } from '../../health/file-store-state.js';
import type { RunState } from '../../runs/machine/run-state.js';
import { PendingByReasonDto } from '../reasons/pending-by-reason.dto.js';
import { EngineUseDto } from '../../workers/dto/resources.dto.js';

@ApiSchema({ name: 'RunsByState', description: 'The number of runs in each state.' })
export class RunsByStateDto implements Record<RunState, number> {
  @ApiProperty({ type: 'integer' }) PENDING: number;
  @ApiProperty({ type: 'integer' }) ASSIGNED: number;
  @ApiProperty({ type: 'integer' }) RUNNING: number;
  @ApiProperty({ type: 'integer' }) COMPLETED: number;
  @ApiProperty({ type: 'integer' }) FAILED: number;
  @ApiProperty({ type: 'integer' }) CANCELLED: number;
}

@ApiSchema({ name: 'OverviewMinute', description: 'The number of runs created and ended in one minute.' })
export class OverviewMinuteDto {
  /** Beginning of the minute. */
  @ApiProperty({ type: 'string', format: 'date-time' }) t: string;
  /** Runs that were created. */
  @ApiProperty({ type: 'integer' }) created: number;
  /** Changes to the state COMPLETED. */
  @ApiProperty({ type: 'integer' }) completed: number;
  /** Changes to the state FAILED, without failures that are retried automatically. */
  @ApiProperty({ type: 'integer' }) failed: number;
  /** Changes to the state CANCELLED. */
  @ApiProperty({ type: 'integer' }) cancelled: number;
}

@ApiSchema({ name: 'OverviewWorkers', description: 'The number of workers, each counted in one field.' })
export class OverviewWorkersDto {
  /** With a heartbeat within the worker timeout, not draining, and claiming. */
  @ApiProperty({ type: 'integer' }) active: number;
  /** With such a heartbeat, and draining. */
  @ApiProperty({ type: 'integer' }) draining: number;
  /** With such a heartbeat that says why they do not claim. */
  @ApiProperty({ type: 'integer' }) not_claiming: number;
  /** Away, as they said themselves. */
  @ApiProperty({ type: 'integer' }) away: number;
  /** Without a heartbeat for longer than the worker timeout, and not away. */
  @ApiProperty({ type: 'integer' }) stale: number;
}

@ApiSchema({ name: 'Usage', description: 'The total amount of a resource and the amount in use.' })
export class UsageDto {
  @ApiProperty({ type: 'integer' }) total: number;
  @ApiProperty({ type: 'integer' }) used: number;
}

@ApiSchema({
  name: 'Capacity',
  description: 'The resources of workers that accept runs, and what their runs use.',
})
export class CapacityDto {
  /** Whole cores; one that is used in part counts. */
  @ApiProperty({ type: UsageDto }) cpu: UsageDto;
  /** Thousandths of cores. */
  @ApiProperty({ type: UsageDto }) cpu_millis: UsageDto;
  @ApiProperty({ type: UsageDto }) ram_mb: UsageDto;
  /** Over all GPUs. */
  @ApiProperty({ type: UsageDto }) vram_mb: UsageDto;
}

@ApiSchema({ name: 'OverviewFiles', description: 'Whether the store of files can be used.' })
export class OverviewFilesDto {
  /** `off`: there is no store. */
  @ApiProperty({ type: 'string', enum: FILE_STORE_STATES }) state: FileStoreHealth['state'];
  /** Since when it is in this state, as the process that answers knows; null for `off`. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) since: string | null;
  /** Why it is failing; else null. */
  @ApiProperty({ type: 'string', nullable: true }) detail: string | null;
}

@ApiSchema({ name: 'Overview', description: 'Counts of runs and workers.' })
export class OverviewDto {
  /** The time of the counts. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
  @ApiProperty({ type: RunsByStateDto }) runs: RunsByStateDto;
  /** As `demand.reasons` of `GET /capacity`; at most ten seconds old while many runs are pending. */
  @ApiProperty({ type: PendingByReasonDto }) reasons: PendingByReasonDto;
  /** When the oldest run that is PENDING was created; null when none is. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) oldest_pending_at: string | null;
  /** The last 60 minutes, oldest first; the last one is not over. */
  @ApiProperty({ type: [OverviewMinuteDto], minItems: 60, maxItems: 60 }) minutes: OverviewMinuteDto[];
  @ApiProperty({ type: OverviewWorkersDto }) workers: OverviewWorkersDto;
  @ApiProperty({ type: CapacityDto }) capacity: CapacityDto;
  /** Engines of launchers, those with the most jobs first, 20 at most. */
  @ApiProperty({ type: [EngineUseDto] }) engines: EngineUseDto[];
  /** Looked at every 15 seconds. */
  @ApiProperty({ type: OverviewFilesDto }) files: OverviewFilesDto;
}

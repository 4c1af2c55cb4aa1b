import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { RUN_STATES, type RunState } from '../../runs/machine/run-state.js';

/** Budgets that can run down. */
export const BUDGETS = ['start_within_s', 'attempt_s'] as const;
export type Budget = (typeof BUDGETS)[number];

@ApiSchema({ name: 'ExplainedDeadline', description: 'A timeout that is running.' })
export class ExplainedDeadlineDto {
  @ApiProperty({ enum: BUDGETS }) budget: Budget;
  /** When it is over, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
  /** Milliseconds until then; 0 when it is over. */
  @ApiProperty({ type: 'integer' }) remaining_ms: number;
}

@ApiSchema({ name: 'ExplainedQueue', description: 'The place of a pending run in the queue.' })
export class ExplainedQueueDto {
  /** 1 for the head of the queue; null while the run is in back-off. */
  @ApiProperty({ type: 'integer', nullable: true }) position: number | null;
  /** False from place 10,000 on, where `position` stays 10000. */
  position_is_exact: boolean;
  /** Higher comes first. */
  @ApiProperty({ type: 'integer' }) priority: number;
  /** When the attempt entered the queue, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) queued_at: string;
  /** Milliseconds since then. */
  @ApiProperty({ type: 'integer' }) waiting_ms: number;
  /** End of the back-off, ISO 8601; null: the run is not in back-off. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) not_before: string | null;
  /** Since when runs behind this one have been handed out before it, ISO 8601; null: never. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) passed_over_at: string | null;
  /** The worker that is kept free for the run; null: none. */
  @ApiProperty({ type: 'string', nullable: true }) reserved_for: string | null;
}

@ApiSchema({ name: 'ExplainedHolder', description: 'The worker that executes a run.' })
export class ExplainedHolderDto {
  /** Null for a run that an admin put into execution: it belongs to the first worker that reports STARTED. */
  @ApiProperty({ type: 'string', nullable: true }) worker_id: string | null;
  /** True while its newest heartbeat lies within the worker timeout. */
  is_active: boolean;
  /** True while an admin keeps it from claiming. */
  draining: boolean;
  /** Null: the pool does not know the worker. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) last_heartbeat_at: string | null;
  /** Milliseconds since that heartbeat. */
  @ApiProperty({ type: 'integer', nullable: true }) silent_ms: number | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) assigned_at: string | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) started_at: string | null;
  /** True when the worker named the run the last time it said what it is executing. */
  reported_running: boolean;
}

@ApiSchema({ name: 'ExplainedEnd', description: 'How a run ended.' })
export class ExplainedEndDto {
  /** ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
  /** Type of the timeline's entry that ended it; null: an admin set the state, and the audit log tells who. */
  @ApiProperty({ type: 'string', nullable: true, example: 'COMPLETED' }) event: string | null;
  /** Message of that entry. */
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }], nullable: true })
  msg: string | number | null;
  /** The worker that had the run last; null: none had the last attempt. */
  @ApiProperty({ type: 'string', nullable: true }) worker_id: string | null;
}

@ApiSchema({ name: 'ExplainedObstacle', description: 'A resource of which a worker has too little.' })
export class ExplainedObstacleDto {
  /** `cpu`, `ram_mb`, `vram_mb`, `reserved` (kept free for another run), or a name of the strategy's own. */
  @ApiProperty({ type: 'string', example: 'ram_mb' }) resource: string;
  /** What the run asks for. */
  @ApiProperty({ type: 'number' }) needed: number;
  /** What the worker has left; of GPU memory, on the GPU that has the most. */
  @ApiProperty({ type: 'number' }) free: number;
  /** What the worker has altogether. */
  @ApiProperty({ type: 'number' }) total: number;
}

@ApiSchema({ name: 'ExplainedWorker', description: 'Whether an active worker can execute a pending run.' })
export class ExplainedWorkerDto {
  id: string;
  /** True when its next claim would get the run, were no other run before it in the queue. */
  can_take_now: boolean;
  /** True when it could take the run if it held nothing. */
  could_ever: boolean;
  /** True while an admin keeps it from claiming. */
  draining: boolean;
  /** What keeps it from taking the run now. */
  @ApiProperty({ type: [ExplainedObstacleDto] }) obstacles: ExplainedObstacleDto[];
}

@ApiSchema({
  name: 'ExplainedWorkerCounts',
  description: 'The number of registered workers by their ability to execute a pending run.',
})
export class ExplainedWorkerCountsDto {
  /** Heard of within the worker timeout. */
  @ApiProperty({ type: 'integer' }) active: number;
  /** Those of the active that may not claim. */
  @ApiProperty({ type: 'integer' }) draining: number;
  /** Silent for longer than the worker timeout. */
  @ApiProperty({ type: 'integer' }) stale: number;
  /** Workers that can take the run now. */
  @ApiProperty({ type: 'integer' }) able_now: number;
  /** Workers that are active, not draining, and could take the run if they held nothing. */
  @ApiProperty({ type: 'integer' }) able_ever: number;
}

@ApiSchema({ name: 'RunExplanation', description: 'Explains the state of a run.' })
export class RunExplanationDto {
  run_id: string;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' }) state: RunState;
  /** Number of the current attempt, from 1. */
  @ApiProperty({ type: 'integer' }) attempt: number;
  /** Name of the scheduling strategy. */
  @ApiProperty({ type: 'string', example: 'fit' }) strategy: string;
  /** The answer in plain words, for people. */
  summary: string;
  /** Null when no time budget is running down. */
  @ApiProperty({ type: ExplainedDeadlineDto, nullable: true }) deadline: ExplainedDeadlineDto | null;
  /** Null unless the run is PENDING. */
  @ApiProperty({ type: ExplainedQueueDto, nullable: true }) queue: ExplainedQueueDto | null;
  /** Null unless the run is ASSIGNED or RUNNING. */
  @ApiProperty({ type: ExplainedHolderDto, nullable: true }) holder: ExplainedHolderDto | null;
  /** Null unless the run has ended. */
  @ApiProperty({ type: ExplainedEndDto, nullable: true }) ended: ExplainedEndDto | null;
  /** Active workers, the most able first, 100 at most; empty unless the run is PENDING. */
  @ApiProperty({ type: [ExplainedWorkerDto] }) workers: ExplainedWorkerDto[];
  /** Null unless the run is PENDING. */
  @ApiProperty({ type: ExplainedWorkerCountsDto, nullable: true }) counts: ExplainedWorkerCountsDto | null;
}

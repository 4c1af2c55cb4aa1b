import { ApiProperty, ApiPropertyOptional, ApiSchema } from '@nestjs/swagger';
import { RUN_STATES, type RunState } from '../../runs/machine/run-state.js';
import type { LostRun } from '../../runs/storage/held-run.repository.js';
import { WorkerDto } from './worker.dto.js';

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
}

export function toLostOpDto({ id, state, attempt, workerId }: LostRun): LostOpDto {
  return { id, state, attempt, worker_id: workerId };
}

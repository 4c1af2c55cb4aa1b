import { ApiProperty, ApiSchema } from '@nestjs/swagger';

@ApiSchema({
  name: 'ExecutionSummary',
  description: 'Facts about an execution; a field is present once its value is known.',
})
export class ExecutionSummaryDto {
  /** Worker that has or had the attempt. */
  worker_id?: string;
  /** GPU it uses. */
  @ApiProperty({ type: 'integer', required: false })
  gpu_id?: number;
  @ApiProperty({ type: 'string', format: 'date-time', required: false })
  assigned_at?: string;
  @ApiProperty({ type: 'string', format: 'date-time', required: false })
  started_at?: string;
  @ApiProperty({ type: 'string', format: 'date-time', required: false })
  finished_at?: string;
  /** Milliseconds from entering the queue to the assignment. */
  @ApiProperty({ type: 'integer', required: false })
  queued_ms?: number;
  /** Milliseconds from the start to the end. */
  @ApiProperty({ type: 'integer', required: false })
  duration_ms?: number;
  /** Why the attempt failed. */
  error_message?: string;
  /** Workers that this run has lost, over all attempts. */
  @ApiProperty({ type: 'integer', required: false })
  reclaims?: number;
}

/** What an execution is summed up from. */
export interface Execution {
  readonly workerId: string | null;
  readonly gpuId: number | null;
  readonly errorMessage: string | null;
  readonly queuedAt: Date;
  readonly assignedAt: Date | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
}

/** @param reclaims worker losses of the whole run; left out for an attempt */
export function toExecutionSummaryDto(execution: Execution, reclaims = 0): ExecutionSummaryDto {
  const { workerId, gpuId, errorMessage, queuedAt, assignedAt, startedAt, finishedAt } = execution;
  return {
    ...(workerId === null ? {} : { worker_id: workerId }),
    ...(gpuId === null ? {} : { gpu_id: gpuId }),
    ...(assignedAt === null
      ? {}
      : { assigned_at: assignedAt.toISOString(), queued_ms: millisBetween(queuedAt, assignedAt) }),
    ...(startedAt === null ? {} : { started_at: startedAt.toISOString() }),
    ...(finishedAt === null ? {} : { finished_at: finishedAt.toISOString() }),
    ...(startedAt === null || finishedAt === null
      ? {}
      : { duration_ms: millisBetween(startedAt, finishedAt) }),
    ...(errorMessage === null ? {} : { error_message: errorMessage }),
    ...(reclaims === 0 ? {} : { reclaims }),
  };
}

function millisBetween(from: Date, to: Date): number {
  return to.getTime() - from.getTime();
}

import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryInteger } from '../../common/http/validation/query-decorators.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import { RUN_STATES, type RunState } from '../machine/run-state.js';
import { MAX_ATTEMPTS_OF_A_RUN, type RunRecord } from '../machine/run.js';
import type { AttemptRow } from '../storage/ended-attempts.js';
import type { TimelineRow } from '../events/event.repository.js';
import { TimelineEventDto, toTimelineEventDto } from './event.dto.js';
import { ExecutionSummaryDto, toExecutionSummaryDto } from './op-run.dto.js';
import { ConstraintsDto, toConstraintsDto } from './constraints.dto.js';

export class ListAttemptsQueryDto {
  /** Largest number of attempts in the page; all of them unless given. */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  limit?: number;

  /** Number of an attempt: the page starts after it. */
  @IsOptional()
  @QueryInteger({ min: 0, max: MAX_ATTEMPTS_OF_A_RUN })
  after?: number;
}

@ApiSchema({ name: 'OpAttempt', description: 'An attempt of a run.' })
export class OpAttemptDto {
  /** UUID version 7. */
  id: string;
  op_run_id: string;
  /** 1-based. */
  @ApiProperty({ type: 'integer' })
  attempt: number;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' })
  state: RunState;
  /** 0-100. */
  @ApiProperty({ type: 'integer' })
  progress: number;
  /** The newest 1,000 timeline entries of this attempt, oldest first; fewer where all come to more than the setting
   * SERVICE_MAX_ANSWER_BYTES. */
  events: TimelineEventDto[];
  @ApiProperty({ type: 'object', additionalProperties: true })
  inputs: JsonObject;
  @ApiProperty({ type: 'object', additionalProperties: true })
  outputs: JsonObject;
  execution_summary: ExecutionSummaryDto;
  constraints: ConstraintsDto;
  /** As in `execution_summary`. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  started_at: string | null;
  /** As in `execution_summary`. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  finished_at: string | null;
}

/** An attempt of a run, the current one or an earlier one. */
export type AttemptRecord = Omit<AttemptRow, 'finishedAt'> & { readonly finishedAt: Date | null };

/** The current attempt, which is stored in the run's row. */
export function recordOfCurrentAttempt(run: RunRecord): AttemptRecord {
  return { ...run, runId: run.id, id: run.attemptId, endEvent: run.eventCount };
}

/** @param events the newest timeline entries of this attempt, oldest first */
export function toOpAttemptDto(
  run: RunRecord,
  attempt: AttemptRecord,
  events: readonly TimelineRow[],
): OpAttemptDto {
  return {
    id: attempt.id,
    op_run_id: run.id,
    attempt: attempt.attempt,
    state: attempt.state,
    progress: attempt.progress,
    events: events.map(toTimelineEventDto),
    inputs: run.inputs,
    outputs: attempt.outputs ?? run.outputsTemplate,
    execution_summary: toExecutionSummaryDto(attempt),
    constraints: {
      ...toConstraintsDto(run, attempt),
      ...(attempt.ramMb !== null && { ram_mb: attempt.ramMb }),
    },
    started_at: attempt.startedAt?.toISOString() ?? null,
    finished_at: attempt.finishedAt?.toISOString() ?? null,
  };
}

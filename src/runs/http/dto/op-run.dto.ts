import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { QueryBoolean } from '../../../common/http/validation/query-decorators.js';
import { IsOptional } from 'class-validator';
import type { JsonObject } from '@longshore/common/json/json-value';
import { RUN_STATES, type RunState } from '../../machine/run-state.js';
import type { RunRecord } from '../../storage/run-record.js';
import { ConstraintsDto } from './constraints.dto.js';
import { EventDeliveryDto } from './event-delivery.dto.js';
import type { TimelineRow } from '../../events/event.repository.js';
import { TimelineEventDto, toTimelineEventDto } from './event.dto.js';
import { ExecutionSummaryDto, toExecutionSummaryDto } from './execution-summary.dto.js';
import { RetryPolicyDto, toRetryPolicyDto } from './retry-policy.dto.js';
import { TimeoutsDto, toTimeoutsDto } from './timeouts.dto.js';

@ApiSchema({ name: 'OpRun', description: 'A run of a container image.' })
export class OpRunDto {
  /** UUID version 7. @example 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b */
  id: string;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', enumSchema: { description: 'State of a run.' } })
  state: RunState;
  /** Higher is scheduled first. */
  @ApiProperty({ type: 'integer' })
  priority: number;
  /** 0-100. */
  @ApiProperty({ type: 'integer' })
  progress: number;
  /** Number of the current attempt, from 1. */
  @ApiProperty({ type: 'integer' })
  current_attempt: number;
  /** @example longshore/word-count */
  image: string;
  @ApiProperty({ type: 'object', additionalProperties: true })
  inputs: JsonObject;
  /** The template the run was created with until the run completes with outputs of its own. */
  @ApiProperty({ type: 'object', additionalProperties: true })
  outputs: JsonObject;
  /** The newest 1,000 entries of the timeline, oldest first; fewer where they come to more than 32 MiB in one answer. */
  @ApiProperty({ type: [TimelineEventDto] })
  events: TimelineEventDto[];
  @ApiProperty({ type: ExecutionSummaryDto })
  execution_summary: ExecutionSummaryDto;
  @ApiProperty({ type: ConstraintsDto })
  constraints: ConstraintsDto;
  @ApiProperty({ type: RetryPolicyDto })
  retry_policy: RetryPolicyDto;
  /** Time budgets; absent when the run has none. */
  @ApiProperty({ type: TimeoutsDto, required: false })
  timeouts?: TimeoutsDto;
  @ApiProperty({ type: EventDeliveryDto, nullable: true })
  event_delivery: EventDeliveryDto | null;
  /** Definition that the run was made from; null for one made directly. */
  @ApiProperty({ type: 'string', nullable: true })
  op_definition: string | null;
  @ApiProperty({ type: 'string', nullable: true })
  op_definition_version: string | null;
  /** Where in a trace the run belongs (W3C Trace Context); absent when nobody traces it. */
  @ApiProperty({ type: 'string', required: false })
  traceparent?: string;
  @ApiProperty({ type: 'string', format: 'date-time' })
  createdAt: string;
  @ApiProperty({ type: 'string', format: 'date-time' })
  updatedAt: string;
}

/** Query of GET /runs/{id}. */
export class GetRunQueryDto {
  /** false leaves `events` empty, for callers who poll the state. */
  @IsOptional()
  @QueryBoolean()
  include_events?: boolean;
}

/** @param events the newest entries of the timeline, oldest first */
export function toOpRunDto(run: RunRecord, events: readonly TimelineRow[]): OpRunDto {
  const timeouts = toTimeoutsDto(run);
  return {
    id: run.id,
    state: run.state,
    priority: run.priority,
    progress: run.progress,
    current_attempt: run.attempt,
    image: run.image,
    inputs: run.inputs,
    outputs: run.outputs ?? run.outputsTemplate,
    events: events.map(toTimelineEventDto),
    execution_summary: toExecutionSummaryDto(run, run.reclaims),
    constraints: { ram_mb: run.ramMb, vram_mb: run.vramMb, cpu: run.cpu, gpu_id: run.gpuId },
    retry_policy: toRetryPolicyDto(run),
    ...(timeouts && { timeouts }),
    event_delivery:
      run.topic === null
        ? null
        : { topic: run.topic, ...(run.attributes === null ? {} : { attributes: run.attributes }) },
    op_definition: run.definitionId,
    op_definition_version: run.definitionVersion,
    ...(run.traceparent !== null && { traceparent: run.traceparent }),
    createdAt: run.createdAt.toISOString(),
    updatedAt: run.updatedAt.toISOString(),
  };
}

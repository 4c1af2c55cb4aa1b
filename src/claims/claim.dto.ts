import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import type { JsonObject } from '@longshore/common/json/json-value';
import { MAX_BULK_ITEMS } from '../common/http/validation/bulk-items.js';
import { QueryInteger } from '../common/http/validation/query-decorators.js';
import { ConstraintsDto, toConstraintsDto } from '../runs/dto/constraints.dto.js';
import { ClaimedOptionFields, claimOptions } from '../runs/options/stored-options.js';
import type { Labels } from '../database/entities/run.entity.js';
import type { ClaimedRun } from '../runs/journal/command.js';

export class ClaimQueryDto {
  /** Seconds to wait for work before an empty response. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;

  /** Most runs to assign; without it, the strategy decides (`direct`: one). */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_BULK_ITEMS })
  @ApiProperty({ required: false })
  max?: number;
}
import { ArrayPlaceDto, toArrayPlaceDto } from '../runs/dto/op-run.dto.js';

@ApiSchema({ name: 'WorkerOpRun', description: 'A run assigned to a worker.' })
export class WorkerOpRunDto extends ClaimedOptionFields {
  id: string;
  /** Name of the run; absent without one. */
  name?: string;
  /** Labels of the run; absent without any. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } }) labels?: Labels;
  image: string;
  @ApiProperty({ type: 'object', additionalProperties: true }) inputs: JsonObject;
  @ApiProperty({ type: ConstraintsDto }) constraints: ConstraintsDto;
  /** The attempt that was claimed, from 1; sent back in `X-Run-Attempt`. */
  @ApiProperty({ type: 'integer' }) attempt: number;
  /** What the container gets as `SERVICE_SCHEDULED_FOR`: the run's time by its schedule; absent without a schedule. */
  @ApiProperty({ type: 'string', required: false }) scheduled_for?: string;
  /** What the container gets as `SERVICE_ARRAY_INDEX` and `SERVICE_ARRAY_SIZE`; absent outside of an array. */
  @ApiProperty({ type: ArrayPlaceDto, required: false }) array?: ArrayPlaceDto;
  /** Trace context of the run (W3C Trace Context), for its container; absent without a trace. */
  @ApiProperty({ type: 'string', required: false }) traceparent?: string;
  @ApiProperty({ type: 'string', required: false }) tracestate?: string;
}

@ApiSchema({ name: 'ClaimedOps', description: 'The runs that a claim assigned.' })
export class ClaimedOpsDto {
  /** Empty if there is no work, or if the worker is unknown, stale or draining. */
  @ApiProperty({ type: [WorkerOpRunDto] }) ops: WorkerOpRunDto[];
}

export function toWorkerOpRunDto({
  run,
  name,
  labels,
  image,
  inputs,
  options,
  scheduleTime,
  arrayIndex,
  arraySize,
  traceparent,
  tracestate,
}: ClaimedRun): WorkerOpRunDto {
  const array = toArrayPlaceDto({ arrayIndex, arraySize });
  return {
    id: run.id,
    ...(name !== null && { name }),
    ...(labels !== null && { labels }),
    image,
    inputs,
    constraints: toConstraintsDto(run, run),
    attempt: run.attempt,
    ...claimOptions(options),
    ...(scheduleTime !== null && { scheduled_for: scheduleTime }),
    ...(array && { array }),
    ...(traceparent !== null && { traceparent }),
    ...(traceparent !== null && tracestate && { tracestate }),
  };
}

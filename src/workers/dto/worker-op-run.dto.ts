import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { AllowUnknownFields, IsText, JsonObject } from '../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { ConstraintsDto } from '../../runs/http/dto/run-options.dto.js';
import type { ClaimedRun } from '../../runs/journal/claim.js';

@ApiSchema({ name: 'RunningOp', description: 'A run in execution, as reported by its worker.' })
@AllowUnknownFields()
export class RunningOpDto {
  @IsText({ min: 1, max: 128 })
  id: string;

  @IsText({ max: 512 })
  image: string;

  @JsonObject()
  inputs: JsonObjectValue;

  @JsonObject()
  constraints: JsonObjectValue;
}

@ApiSchema({ name: 'WorkerOpRun', description: 'A run assigned to a worker.' })
export class WorkerOpRunDto {
  id: string;
  image: string;
  @ApiProperty({ type: 'object', additionalProperties: true })
  inputs: JsonObjectValue;
  @ApiProperty({ type: ConstraintsDto })
  constraints: ConstraintsDto;
  /** The attempt that was claimed, from 1; sent back in `X-Run-Attempt`. */
  @ApiProperty({ type: 'integer' })
  attempt: number;
  /** Where in a trace the run belongs (W3C Trace Context), for its container; absent when nobody traces it. */
  @ApiProperty({ type: 'string', required: false })
  traceparent?: string;
  @ApiProperty({ type: 'string', required: false })
  tracestate?: string;
}

@ApiSchema({ name: 'ClaimedOps', description: 'The runs that a claim assigned.' })
export class ClaimedOpsDto {
  /** Empty when there is no work, and for a worker that is unknown or was silent for too long. */
  @ApiProperty({ type: [WorkerOpRunDto] })
  ops: WorkerOpRunDto[];
}

/** The claimed run as its worker sees it. */
export function toWorkerOpRunDto({ run, image, inputs, trace }: ClaimedRun): WorkerOpRunDto {
  return {
    id: run.id,
    image,
    inputs,
    constraints: { ram_mb: run.ramMb, vram_mb: run.vramMb, cpu: run.cpu, gpu_id: run.gpuId },
    attempt: run.attempt,
    ...(trace && { traceparent: trace.traceparent }),
    ...(trace?.tracestate && { tracestate: trace.tracestate }),
  };
}

import { ApiSchema } from '@nestjs/swagger';
import {
  AllowUnknownFields,
  IsText,
  IsTextList,
  Nested,
  NestedList,
  OptionalField,
} from '../../common/http/validation/dto-decorators.js';
import type { Heartbeat, ReportedRun } from '../pool/worker-pool.js';
import { WORKER_ID_PATTERN } from '../worker-id.js';
import { InvalidHeartbeat } from '../workers.errors.js';
import { ResourcesInputDto } from './resources.dto.js';
import { RunningOpDto } from './worker-op-run.dto.js';

/** Characters of running runs that are kept whole for a worker. */
const MAX_KEPT_OPS = 256 * 1024;

@ApiSchema({ name: 'HeartbeatRequest', description: 'The state of a worker. Unknown fields are ignored.' })
@AllowUnknownFields()
export class HeartbeatDto {
  /** @example worker-1 */
  @IsText({
    min: 1,
    max: 128,
    pattern: WORKER_ID_PATTERN,
    form: 'a worker id (letters, digits and . _ - : /, starting with a letter or digit)',
  })
  worker_id: string;

  @Nested(() => ResourcesInputDto)
  resources: ResourcesInputDto;

  @IsTextList({ max: 128 }, { max: 100 })
  tags: string[];

  /** Runs that the worker is executing; left out, what it said before stands. */
  @OptionalField()
  @NestedList(() => RunningOpDto, { max: 1000 })
  running_ops?: RunningOpDto[];
}

/** @throws InvalidHeartbeat when two GPUs have one id */
export function toHeartbeat(dto: HeartbeatDto): Heartbeat {
  const { resources } = dto;
  const seen = new Set<number>();
  const problems = resources.gpus.flatMap(({ id }, i) => {
    if (!seen.has(id)) {
      seen.add(id);
      return [];
    }
    return [`resources.gpus[${i}].id must not repeat the id of another GPU`];
  });
  if (problems.length > 0) throw new InvalidHeartbeat(problems);
  return {
    id: dto.worker_id,
    cpuCores: resources.cpu_cores,
    ramMb: resources.ram_mb,
    gpus: resources.gpus.map(({ id, vram_mb: vramMb, tags }) => ({ id, vramMb, tags: tags ?? [] })),
    tags: dto.tags,
    runningOps: dto.running_ops && keptOps(dto.running_ops),
  };
}

/**
 * What is kept of the runs that a worker reports. Their inputs and constraints are for people to look at; once they
 * come to more than a worker's share of memory they are left out, and the heartbeat still counts.
 */
function keptOps(ops: readonly RunningOpDto[]): ReportedRun[] {
  const isSmall = JSON.stringify(ops).length <= MAX_KEPT_OPS;
  return ops.map(({ id, image, inputs, constraints }) => ({
    id,
    image,
    inputs: isSmall ? inputs : {},
    constraints: isSmall ? constraints : {},
  }));
}

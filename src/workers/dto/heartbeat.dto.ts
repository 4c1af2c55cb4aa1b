import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import {
  AllowUnknownFields,
  Check,
  IsJsonInteger,
  IsText,
  IsTextList,
  JsonObject,
  Nested,
  NestedList,
  OptionalField,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { QueryInteger } from '../../common/http/validation/query-decorators.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { ABILITIES } from '../../runs/machine/event-types.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../../runs/machine/run.js';
import {
  NOT_CLAIMING_REASONS,
  type Heartbeat,
  type NotClaiming,
  type RunningOp,
  type Unable,
} from '../pool/worker-pool.js';
import {
  ContainerEngineInputDto,
  EngineJobsInputDto,
  ResourcesInputDto,
  toContainerEngineDto,
} from './resources.dto.js';

@ApiSchema({
  name: 'NotClaiming',
  description: 'Why a worker does not claim. Unknown fields are ignored.',
})
@AllowUnknownFields()
export class NotClaimingDto {
  /**
   * `draining`: it shuts down; `recovering`: it has not settled yet what an earlier process left; `engine_paused`: its container
   * engine failed, and no probe has succeeded since; `disk_full`: so, because the disk is full; `key_refused`: the service refuses its key.
   */
  @Check(
    'isReason',
    (value) => NOT_CLAIMING_REASONS.some((reason) => reason === value),
    `must be one of: ${NOT_CLAIMING_REASONS.join(', ')}`,
  )
  @ApiProperty({ enum: NOT_CLAIMING_REASONS, enumName: 'NotClaimingReason' })
  reason: NotClaiming['reason'];

  /** In the worker's words, for display. @example the engine's disk is full */
  @OptionalField()
  @IsText({ max: 500, ...SHOWN_TEXT })
  message: string = '';
}

export function toNotClaimingDtos(reasons: readonly NotClaiming[]): NotClaimingDto[] {
  return reasons.map(({ reason, message }) => ({ reason, message }));
}

@ApiSchema({
  name: 'Unable',
  description:
    'What the machine of a worker is unable to do at present, and why. Unknown fields are ignored.',
})
@AllowUnknownFields()
export class UnableDto {
  /**
   * `gpus`: to give runs GPUs; `ram_limit`, `cpu_limit`, `pids_limit`: to keep such a limit of a container, because the engine
   * discards it.
   */
  @Check(
    'isAbility',
    (value) => ABILITIES.some((ability) => ability === value),
    `must be one of: ${ABILITIES.join(', ')}`,
  )
  @ApiProperty({ enum: ABILITIES, enumName: 'Ability' })
  ability: Unable['ability'];

  /** Why, in the worker's words, for display. @example could not select device driver "" with capabilities: [[gpu]] */
  @OptionalField()
  @IsText({ max: 500, ...SHOWN_TEXT })
  message: string = '';
}

export function toUnableDtos(unable: readonly Unable[]): UnableDto[] {
  return unable.map(({ ability, message }) => ({ ability, message }));
}

/** 1-128 characters, the first one alphanumeric. */
const WORKER_ID = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;

@ApiSchema({ name: 'RunningOp', description: 'A run in execution, as reported by its worker.' })
@AllowUnknownFields()
export class RunningOpDto {
  @IsText({ min: 1, max: 128, ...SHOWN_TEXT }) id: string;

  @IsText({ max: 512, ...SHOWN_TEXT }) image: string;

  @JsonObject() inputs: JsonObjectValue;

  @JsonObject() constraints: JsonObjectValue;

  /** The attempt of the claim, from 1. Without it, the worker is not told that the run is at another attempt. */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  attempt?: number;
}

@ApiSchema({
  name: 'EndingOp',
  description: 'An attempt whose program a worker is still ending. Unknown fields are ignored.',
})
@AllowUnknownFields()
export class EndingOpDto {
  @IsText({ min: 1, max: 128, ...SHOWN_TEXT }) id: string;

  /** From 1. */
  @IsJsonInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN }) attempt: number;
}

@ApiSchema({ name: 'HeartbeatRequest', description: 'The state of a worker. Unknown fields are ignored.' })
@AllowUnknownFields()
export class HeartbeatDto {
  /** @example worker-1 */
  @IsText({
    min: 1,
    max: 128,
    pattern: WORKER_ID,
    form: 'a worker id (letters, digits and . _ - : /, starting with a letter or digit)',
  })
  worker_id: string;

  @Nested(() => ResourcesInputDto) resources: ResourcesInputDto;

  @IsTextList({ max: 128, ...SHOWN_TEXT }, { max: 100 }) tags: string[];

  /**
   * What the worker supports beyond plain runs: `env`, `command`, `secrets`, `registry`, `container`, `network:NAME`,
   * `cpu_millis`, `gpus`, `shm`; runs that need another one are not given to it. None unless given.
   */
  @OptionalField()
  @IsTextList({ min: 1, max: 128, ...SHOWN_TEXT }, { max: 1000 })
  capabilities?: string[];

  /** The container engine of a worker that executes its runs itself, for display. */
  @OptionalField()
  @Nested(() => ContainerEngineInputDto)
  container_engine?: ContainerEngineInputDto;

  /** Only of a launcher: a worker that submits its runs to an engine, such as Kubernetes or Slurm. */
  @OptionalField()
  @Nested(() => EngineJobsInputDto)
  engine?: EngineJobsInputDto;

  /** Why the worker does not claim at present, each reason once. Absent or empty: it claims. */
  @OptionalField()
  @NestedList(() => NotClaimingDto, { max: NOT_CLAIMING_REASONS.length })
  not_claiming?: NotClaimingDto[];

  /**
   * What the machine is unable to do at present, each once. The worker takes other runs. It does not offer what it cannot do:
   * without GPUs, `resources` has none.
   */
  @OptionalField()
  @NestedList(() => UnableDto, { max: ABILITIES.length })
  unable?: UnableDto[];

  /** Runs that the worker is executing; without it, those of the heartbeat before stay. */
  @OptionalField()
  @NestedList(() => RunningOpDto, { max: 1000 })
  running_ops?: RunningOpDto[];

  /**
   * Attempts that the worker has lost and whose programs it is still ending, or whose ends it does not know: their resources
   * count as used while they are named here.
   */
  @OptionalField()
  @NestedList(() => EndingOpDto, { max: 1000 })
  ending_ops?: EndingOpDto[];

  /**
   * Seconds for which the worker will be away and send no heartbeats, while its runs go on, such as for its upgrade: until then it
   * keeps them, and gets no others. No more count than the setting SERVICE_WORKER_AWAY_MAX_S. The next heartbeat without it ends that.
   */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: 86_400 })
  away_s?: number;
}

export class HeartbeatQueryDto {
  /** Seconds to wait for the loss of a run before the response. */
  @QueryInteger({ min: 0, max: 30, default: 0 })
  wait?: number;
}

/** @param awayMaxS limit of `away_s` @throws InvalidRequest when two GPUs have one id */
export function toHeartbeat(dto: HeartbeatDto, awayMaxS: number): Heartbeat {
  const { resources, engine } = dto;
  const ids = resources.gpus.map(({ id }) => id);
  const repeated = ids.flatMap((id, i) => (ids.indexOf(id) < i ? [i] : []));
  if (repeated.length > 0) {
    throw new InvalidRequest(
      VALIDATION_FAILED,
      repeated.map((i) => `resources.gpus[${i}].id must not repeat the id of another GPU`),
    );
  }
  return {
    id: dto.worker_id,
    cpuCores: resources.cpu_cores,
    ramMb: resources.ram_mb,
    gpus: resources.gpus.map(({ id, vram_mb: vramMb, tags }) => ({ id, vramMb, tags: tags ?? [] })),
    tags: dto.tags,
    capabilities: dto.capabilities ?? [],
    engine: engine ? { name: engine.name, pending: engine.pending, running: engine.running } : null,
    containerEngine: dto.container_engine ? toContainerEngineDto(dto.container_engine) : null,
    notClaiming: toNotClaimingDtos(dto.not_claiming ?? []),
    unable: toUnableDtos(dto.unable ?? []),
    runningOps: dto.running_ops?.map(toRunningOp),
    ...(dto.away_s !== undefined && { awayMs: Math.min(dto.away_s, awayMaxS) * 1000 }),
  };
}

/** A run in execution without what else the object has: a body may have unknown fields. */
export function toRunningOp({ id, image, inputs, constraints, attempt }: RunningOp) {
  return { id, image, inputs, constraints, ...(attempt !== undefined && { attempt }) };
}

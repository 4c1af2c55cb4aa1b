import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional, ApiSchema } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import {
  type IntegerRange,
  IsJsonInteger,
  IsTextList,
  OptionalField,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import type { ExtraConstraints } from '../../database/entities/run.entity.js';
import { readGpuIds, type Run } from '../machine/run.js';
import { MAX_GPUS } from '../machine/event-types.js';

const LARGEST = 2 ** 31 - 1;

/** An amount of a resource. */
const AMOUNT: IntegerRange = { min: 0, max: LARGEST };

/** An amount of which none makes no sense. */
const POSITIVE: IntegerRange = { min: 1, max: LARGEST };

/** What is wrong with a member beside the others, as `must be ...`; undefined: nothing, or they are not of the right form. */
const RULES = {
  cpu({ cpu, cpu_millis: millis }: RequestedConstraints): string | undefined {
    if (!isNumber(cpu) || !isNumber(millis) || cpu === toCores(millis)) return undefined;
    return `must be ${toCores(millis)}, the next whole number of cpu_millis, where both are given`;
  },
  cpu_limit_millis({ cpu, cpu_millis: millis, cpu_limit_millis: limit }: RequestedConstraints) {
    const request = isNumber(millis) ? millis : isNumber(cpu) ? cpu * 1000 : 0;
    if (!isNumber(limit) || limit === 0 || limit >= request) return undefined;
    return `must be 0 or at least what is requested, ${request}`;
  },
  shm_mb({ ram_mb: ramMb, shm_mb: shmMb }: RequestedConstraints): string | undefined {
    if (!isNumber(shmMb) || !isNumber(ramMb) || ramMb === 0 || shmMb <= ramMb) return undefined;
    return `must be at most ram_mb, ${ramMb}`;
  },
};

@ApiSchema({
  name: 'ConstraintsInput',
  description: 'Hardware requirements of a run; an absent one is 0: no requirement and no limit.',
})
export class ConstraintsInputDto {
  /** RAM in MB. @example 256 */
  @OptionalField()
  @IsJsonInteger(AMOUNT)
  ram_mb?: number;

  /** GPU memory in MB: a share of one GPU, or the least of each of `gpus`. @example 0 */
  @OptionalField()
  @IsJsonInteger(AMOUNT)
  vram_mb?: number;

  /** CPUs. @example 1 */
  @OptionalField()
  @CheckRule('cpu')
  @IsJsonInteger(AMOUNT)
  cpu?: number;

  /** Thousandths of a CPU; `cpu` is then the next whole number. @example 1000 */
  @OptionalField()
  @IsJsonInteger(POSITIVE)
  cpu_millis?: number;

  /** Thousandths of a CPU that the run may use at most; 0: no limit. Default: as many as it asks for. @example 1000 */
  @OptionalField()
  @CheckRule('cpu_limit_millis')
  @IsJsonInteger(AMOUNT)
  cpu_limit_millis?: number;

  /** GPUs of one machine that no other run uses; `vram_mb` is then the least memory of each. 0: a share of one GPU. @example 2 */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: MAX_GPUS })
  gpus?: number;

  /** Tags that each GPU of the run must have. @example ["a100"] */
  @OptionalField()
  @IsTextList({ min: 1, max: 128, ...SHOWN_TEXT }, { max: 8 })
  gpu_selector?: string[];

  /** Size of `/dev/shm` in MB, at most `ram_mb` where that is set. Default: `ram_mb`, else that of the engine. @example 64 */
  @OptionalField()
  @CheckRule('shm_mb')
  @IsJsonInteger(POSITIVE)
  shm_mb?: number;

  /** Accepted and ignored: the scheduler chooses the GPU. */
  @OptionalField()
  @IsJsonInteger()
  gpu_id?: number | null;
}

@ApiSchema({
  name: 'Constraints',
  description: 'Hardware requirements of a run, and its GPU. Optional members are those that were given.',
})
export class ConstraintsDto {
  /** RAM in MB, of the attempt where `retry_policy.grow` gives it more; 0: no requirement, no limit. */
  @ApiProperty({ type: 'integer' })
  ram_mb: number;
  /** GPU memory in MB; 0: no requirement. */
  @ApiProperty({ type: 'integer' })
  vram_mb: number;
  /** CPUs, rounded up; 0: no requirement, no limit. */
  @ApiProperty({ type: 'integer' })
  cpu: number;
  /** GPU that the current attempt uses, the first of several. */
  @ApiProperty({ type: 'integer', nullable: true })
  gpu_id: number | null;
  /** Thousandths of a CPU; absent: `cpu` is exact. */
  @ApiPropertyOptional({ type: 'integer' })
  cpu_millis?: number;
  /** Thousandths of a CPU that the run may use at most; 0: no limit; absent: as many as it asks for. */
  @ApiPropertyOptional({ type: 'integer' })
  cpu_limit_millis?: number;
  /** GPUs that no other run uses; absent or 0: a share of one GPU. */
  @ApiPropertyOptional({ type: 'integer' })
  gpus?: number;
  /** Tags that each of its GPUs must have. */
  gpu_selector?: string[];
  /** Size of `/dev/shm` in MB; absent: `ram_mb`, or that of the engine where it is 0. */
  @ApiPropertyOptional({ type: 'integer' })
  shm_mb?: number;
  /** GPUs that the current attempt uses, `gpu_id` the first; absent: no list of them is known. */
  @ApiPropertyOptional({ type: 'array', items: { type: 'integer' } })
  gpu_ids?: number[];
}

/** Constraints of a request; null and absent ones are not given. */
export type RequestedConstraints = {
  readonly [F in keyof ConstraintsInputDto]?: ConstraintsInputDto[F] | null;
};

/** The members that are stored as they are given. */
const EXTRA = [
  'cpu_millis',
  'cpu_limit_millis',
  'gpus',
  'gpu_selector',
  'shm_mb',
] as const satisfies readonly (keyof ExtraConstraints)[];

const NO_GPU = { gpuId: null, gpuIds: null };

type StoredConstraints = Pick<Run, 'ramMb' | 'vramMb' | 'cpu' | 'extraConstraints'>;

/**
 * The columns that hold the constraints, with the documented defaults.
 * @param grow of the retry policy
 */
export function toStoredConstraints(
  requested: RequestedConstraints = {},
  grow: ExtraConstraints['grow'] | null = null,
): StoredConstraints {
  const { ram_mb, vram_mb, cpu, cpu_millis } = requested;
  const extra = EXTRA.filter((name) => (requested[name] ?? null) !== null);
  return {
    ramMb: ram_mb ?? 0,
    vramMb: vram_mb ?? 0,
    cpu: isNumber(cpu_millis) ? toCores(cpu_millis) : (cpu ?? 0),
    extraConstraints:
      extra.length === 0 && grow === null
        ? null
        : { ...Object.fromEntries(extra.map((name) => [name, requested[name]])), ...(grow && { grow }) },
  };
}

/** Absent: no list is known. */
export function toGpuIds(gpuIds: string | null): { readonly gpu_ids?: number[] } {
  return gpuIds === null ? {} : { gpu_ids: readGpuIds(gpuIds) };
}

/** The constraints as answers show them. @param attempt whose GPUs are shown */
export function toConstraintsDto(
  { ramMb, vramMb, cpu, extraConstraints }: StoredConstraints,
  { gpuId, gpuIds }: Pick<Run, 'gpuId' | 'gpuIds'> = NO_GPU,
): ConstraintsDto {
  const extra = extraConstraints && withoutGrowth(extraConstraints);
  return { ram_mb: ramMb, vram_mb: vramMb, cpu, gpu_id: gpuId, ...extra, ...toGpuIds(gpuIds) };
}

function withoutGrowth(extra: ExtraConstraints): Partial<ConstraintsDto> {
  const { grow: _, grown: __, ...members } = extra;
  return members;
}

/**
 * Constraints of a definition with those of a run of it, which win member by member; `cpu` and `cpu_millis` are one.
 * @returns the constraints, or what is wrong with them: one line per member
 */
export function mergeConstraints(
  definition: StoredConstraints,
  run: RequestedConstraints = {},
): { readonly merged: RequestedConstraints } | { readonly problems: readonly string[] } {
  const given = withoutAbsent(run);
  const { cpu, cpu_millis, ...kept } = toConstraintsDto(definition);
  const isCpuGiven = 'cpu' in given || 'cpu_millis' in given;
  const cpus = isCpuGiven ? {} : withoutAbsent({ cpu, cpu_millis });
  const merged = { ...kept, ...cpus, ...given };
  const problems = Object.entries(RULES).flatMap(([name, problemOf]) => {
    const problem = problemOf(merged);
    return problem === undefined ? [] : [`constraints.${name} ${problem}`];
  });
  return problems.length > 0 ? { problems } : { merged };
}

/** The members that are neither undefined nor null. */
export function withoutAbsent<T extends object>(members: T): { [F in keyof T]?: NonNullable<T[F]> } {
  return Object(Object.fromEntries(Object.entries(members).filter(([, value]) => (value ?? null) !== null)));
}

/** The next whole number of CPUs. */
function toCores(millis: number): number {
  return Math.ceil(millis / 1000);
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

/** What a member must be beside the others of the request. */
function CheckRule(name: keyof typeof RULES): PropertyDecorator {
  return applyDecorators(
    ValidateBy({
      name: 'isAmongConstraints',
      validator: {
        validate: (_, args) => RULES[name](args?.object ?? {}) === undefined,
        defaultMessage: (args) => `$property ${RULES[name](args?.object ?? {}) ?? ''}`,
      },
    }),
  );
}

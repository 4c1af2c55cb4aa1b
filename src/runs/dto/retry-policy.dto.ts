import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import {
  Check,
  IsJsonInteger,
  IsTextList,
  Nested,
  OptionalField,
  type IntegerRange,
} from '../../common/http/validation/dto-decorators.js';
import {
  isRetryOnEntry,
  MAX_RETRY_ON_ENTRIES,
  RETRY_ON_FORM,
  RETRY_ON_PATTERN,
} from '../machine/retry-on.js';
import type { Run } from '../machine/run.js';
import type { RequestedConstraints } from './constraints.dto.js';

/** A back-off in seconds: at most a day. */
const BACKOFF: IntegerRange = { min: 0, max: 86_400 };

const GROWTH_DESCRIPTION = 'What the next attempt has more of after some failures.';
const AMOUNT_GROWTH_DESCRIPTION = 'How an amount grows from attempt to attempt.';

@ApiSchema({ name: 'AmountGrowthInput', description: AMOUNT_GROWTH_DESCRIPTION })
export class AmountGrowthInputDto {
  /** By what the amount is multiplied for each of the failures: above 1. The product is exact, and rounded up. @example 2 */
  @Check(
    'isGrowthFactor',
    (value) => typeof value === 'number' && value > 1 && value <= 10,
    'must be a number above 1 and at most 10',
  )
  @ApiProperty({ type: 'number', minimum: 1, maximum: 10 })
  factor: number;

  /** The most that an attempt gets, in MB; not less than the run asks for. @example 16384 */
  @IsJsonInteger({ min: 1, max: 2 ** 31 - 1 })
  max: number;

  /** Failures after which the amount grows, as in `retry_on`; `oom` unless given. @example ["oom", "exit:137"] */
  @OptionalField()
  @IsRetryOnList()
  on?: string[];
}

@ApiSchema({ name: 'GrowthInput', description: GROWTH_DESCRIPTION })
export class GrowthInputDto {
  /** The RAM, from `constraints.ram_mb`. */
  @Nested(() => AmountGrowthInputDto)
  ram_mb: AmountGrowthInputDto;
}

@ApiSchema({ name: 'RetryPolicyInput', description: 'When a failed attempt is retried automatically.' })
export class RetryPolicyInputDto {
  /** Attempts that may fail before the run does; 1, the default, means no automatic retry. @example 3 */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: 1000 })
  max_attempts?: number;

  /**
   * Seconds to wait before an automatic retry after the first failure, doubled with each further one and shortened
   * at random by up to a half; 0, the default, means at once.
   * @example 10
   */
  @OptionalField()
  @IsJsonInteger(BACKOFF)
  backoff_s?: number;

  /** Longest such wait in seconds; 0, the default, means no bound but a day. @example 600 */
  @OptionalField()
  @IsJsonInteger(BACKOFF)
  max_backoff_s?: number;

  /**
   * Failures that are retried: causes (`error`, `exit`, `oom`, `timeout`, `image`) and exit codes (`exit:75`,
   * `exit:100-110`). All unless given; none with an empty list. @example ["oom", "exit:75"]
   */
  @OptionalField()
  @IsRetryOnList()
  retry_on?: string[];

  /** More RAM for the attempt after a failure for lack of it. Failures of the infrastructure and lost workers change nothing. */
  @OptionalField()
  @Nested(() => GrowthInputDto)
  grow?: GrowthInputDto;
}

@ApiSchema({ name: 'AmountGrowth', description: AMOUNT_GROWTH_DESCRIPTION })
export class AmountGrowthDto {
  /** By what the amount is multiplied for each of the failures. */
  factor: number;
  /** The most that an attempt gets, in MB. */
  @ApiProperty({ type: 'integer' })
  max: number;
  /** Failures after which it grows; absent: `oom`. */
  on?: string[];
}

@ApiSchema({ name: 'Growth', description: GROWTH_DESCRIPTION })
export class GrowthDto {
  ram_mb: AmountGrowthDto;
}

@ApiSchema({ name: 'RetryPolicy', description: 'When a failed attempt is retried automatically.' })
export class RetryPolicyDto {
  /** Attempts that may fail before the run does. */
  @ApiProperty({ type: 'integer' })
  max_attempts: number;
  /** Seconds to wait before an automatic retry after the first failure, doubled with each further one; absent: at once. */
  @ApiProperty({ type: 'integer' })
  backoff_s?: number;
  /** Longest such wait in seconds; absent: no bound but a day. */
  @ApiProperty({ type: 'integer' })
  max_backoff_s?: number;
  /** Failures that are retried; absent: all. */
  retry_on?: string[];
  /** More RAM after some failures; absent: none. `constraints` have the amounts of the attempt. */
  grow?: GrowthDto;
}

/** A retry policy of a request, or of a definition as it is shown. */
export type RequestedRetryPolicy = {
  readonly [F in keyof RetryPolicyDto]?: RetryPolicyDto[F] | null | undefined;
};

/** The columns that hold a retry policy, except its `grow`. */
export type StoredRetryPolicy = Pick<Run, 'maxAttempts' | 'backoffS' | 'maxBackoffS' | 'retryOn'>;

/** Leaves out what the run does not set: pauses of 0, and the list of failures when all are retried. */
export function toRetryPolicyDto({
  maxAttempts,
  backoffS,
  maxBackoffS,
  retryOn,
  extraConstraints,
}: StoredRetryPolicy & Pick<Run, 'extraConstraints'>): RetryPolicyDto {
  const grow = extraConstraints?.grow;
  return {
    max_attempts: maxAttempts,
    ...(backoffS !== 0 && { backoff_s: backoffS }),
    ...(maxBackoffS !== 0 && { max_backoff_s: maxBackoffS }),
    ...(retryOn !== null && { retry_on: retryOn.split(',').filter((entry) => entry !== '') }),
    ...(grow && { grow }),
  };
}

/** A list as `retry_on`. */
function IsRetryOnList(): PropertyDecorator {
  // What is applied last is checked first.
  return applyDecorators(
    Check(
      'isRetryOn',
      (value) => Array.isArray(value) && value.every(isRetryOnEntry),
      'must have ranges of exit codes from the smaller to the larger one',
    ),
    IsTextList({ pattern: RETRY_ON_PATTERN, form: RETRY_ON_FORM }, { max: MAX_RETRY_ON_ENTRIES }),
  );
}

/** A retry policy that, if it lets the run grow, does so from the constraints beside it. */
export function GrowsFromConstraints(): PropertyDecorator {
  return ValidateBy({
    name: 'growsFromConstraints',
    validator: {
      validate: (policy, args) =>
        growthProblem(Object(policy), Object(args?.object).constraints) === undefined,
      defaultMessage: (args) =>
        growthProblem(Object(args?.value), Object(args?.object).constraints, '$property') ?? '',
    },
  });
}

/** Why a run with these constraints cannot grow as its policy says, in words; undefined: it can, or one of both has not the right form. */
export function growthProblem(
  { grow }: RequestedRetryPolicy,
  constraints: RequestedConstraints | undefined,
  path = 'retry_policy',
): string | undefined {
  const max: unknown = grow?.ram_mb?.max;
  const ramMb: unknown = constraints?.ram_mb ?? 0;
  if (typeof max !== 'number' || typeof ramMb !== 'number') return undefined;
  if (ramMb === 0) return `${path}.grow.ram_mb.factor needs constraints.ram_mb, which it multiplies, above 0`;
  return max < ramMb ? `${path}.grow.ram_mb.max must be at least constraints.ram_mb, ${ramMb}` : undefined;
}

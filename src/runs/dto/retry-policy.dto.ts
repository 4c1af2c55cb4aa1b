import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  Check,
  IsJsonInteger,
  IsTextList,
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

/** A back-off in seconds: at most a day. */
const BACKOFF: IntegerRange = { min: 0, max: 86_400 };

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
  @IsTextList({ pattern: RETRY_ON_PATTERN, form: RETRY_ON_FORM }, { max: MAX_RETRY_ON_ENTRIES })
  @Check(
    'isRetryOn',
    (value) => Array.isArray(value) && value.every(isRetryOnEntry),
    'must have ranges of exit codes from the smaller to the larger one',
  )
  retry_on?: string[];
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
}

/** A retry policy of a request, or of a definition as it is shown. */
export type RequestedRetryPolicy = {
  readonly [F in keyof RetryPolicyDto]?: RetryPolicyDto[F] | null | undefined;
};

/** The columns that hold a retry policy. */
export type StoredRetryPolicy = Pick<Run, 'maxAttempts' | 'backoffS' | 'maxBackoffS' | 'retryOn'>;

/** Leaves out what the run does not set: pauses of 0, and the list of failures when all are retried. */
export function toRetryPolicyDto({
  maxAttempts,
  backoffS,
  maxBackoffS,
  retryOn,
}: StoredRetryPolicy): RetryPolicyDto {
  return {
    max_attempts: maxAttempts,
    ...(backoffS !== 0 && { backoff_s: backoffS }),
    ...(maxBackoffS !== 0 && { max_backoff_s: maxBackoffS }),
    ...(retryOn !== null && { retry_on: retryOn.split(',').filter((entry) => entry !== '') }),
  };
}

import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsJsonInteger, OptionalField } from '../../../common/http/validation/dto-decorators.js';

/** A pause in seconds: up to a day. */
const PAUSE = { min: 0, max: 86_400 } as const;

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
  @IsJsonInteger(PAUSE)
  backoff_s?: number;

  /** Longest such wait in seconds; 0, the default, means no bound but a day. @example 600 */
  @OptionalField()
  @IsJsonInteger(PAUSE)
  max_backoff_s?: number;
}

@ApiSchema({ name: 'RetryPolicy', description: 'When a failed attempt is retried automatically.' })
export class RetryPolicyDto {
  /** Attempts that may fail before the run does. */
  @ApiProperty({ type: 'integer' })
  max_attempts: number;
  /** Seconds to wait before an automatic retry after the first failure, doubled with each further one; absent: at once. */
  @ApiProperty({ type: 'integer', required: false })
  backoff_s?: number;
  /** Longest such wait in seconds; absent: no bound but a day. */
  @ApiProperty({ type: 'integer', required: false })
  max_backoff_s?: number;
}

/** A retry policy as it is stored; the pauses are in seconds. */
export interface StoredRetryPolicy {
  readonly maxAttempts: number;
  /** 0: at once. */
  readonly backoffS: number;
  /** 0: no bound of its own. */
  readonly maxBackoffS: number;
}

/** What is stored of the policy that a request gave, with the documented defaults. */
export function storedRetryPolicy(policy: RetryPolicyInputDto | null | undefined): StoredRetryPolicy {
  return {
    maxAttempts: policy?.max_attempts ?? 1,
    backoffS: policy?.backoff_s ?? 0,
    maxBackoffS: policy?.max_backoff_s ?? 0,
  };
}

/** The block `retry_policy`; pauses of 0 are left out, so that a policy without back-off looks as it always did. */
export function toRetryPolicyDto({ maxAttempts, backoffS, maxBackoffS }: StoredRetryPolicy): RetryPolicyDto {
  return {
    max_attempts: maxAttempts,
    ...(backoffS === 0 ? {} : { backoff_s: backoffS }),
    ...(maxBackoffS === 0 ? {} : { max_backoff_s: maxBackoffS }),
  };
}

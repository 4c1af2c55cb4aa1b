import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  IsJsonInteger,
  Check,
  IsText,
  IsTextList,
  IsTextMap,
  OptionalField,
  type IntegerRange,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import {
  isRetryOnEntry,
  MAX_RETRY_ON_ENTRIES,
  RETRY_ON_FORM,
  RETRY_ON_PATTERN,
} from '../machine/retry-on.js';
import type { Run } from '../machine/run.js';
import { toStoredConstraints, type RequestedConstraints } from './constraints.dto.js';

/** A container image as runs and definitions name it. */
export const IMAGE_REFERENCE: TextShape = {
  min: 1,
  max: 512,
  // oxlint-disable-next-line no-control-regex -- the pattern excludes control characters
  pattern: /^[^\s\x00-\x1f\x7f-\x9f]*$/,
  form: 'an image reference without white space',
};

/** A priority: a signed 32-bit integer. */
export const PRIORITY = { min: -(2 ** 31), max: 2 ** 31 - 1 } as const satisfies IntegerRange;

/** A back-off in seconds: at most a day. */
const BACKOFF: IntegerRange = { min: 0, max: 86_400 };

/** A timeout in seconds: at most 366 days. */
const TIMEOUT: IntegerRange = { min: 1, max: 31_622_400 };

const TIMEOUTS_DESCRIPTION = 'Timeouts of a run; an absent one does not apply.';
const DELIVERY_DESCRIPTION = "The feed that mirrors a run's events.";

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

@ApiSchema({ name: 'TimeoutsInput', description: TIMEOUTS_DESCRIPTION })
export class TimeoutsInputDto {
  /**
   * Seconds within which an attempt has to report STARTED once it can be claimed; over it the run is FAILED for good.
   * @example 3600
   */
  @OptionalField()
  @IsJsonInteger(TIMEOUT)
  start_within_s?: number;

  /**
   * Seconds that an attempt may run after STARTED; over it the attempt is FAILED, and the retry policy decides what follows.
   * @example 900
   */
  @OptionalField()
  @IsJsonInteger(TIMEOUT)
  attempt_s?: number;
}

@ApiSchema({ name: 'Timeouts', description: TIMEOUTS_DESCRIPTION })
export class TimeoutsDto {
  /** Seconds within which a claimable attempt must report STARTED. @example 3600 */
  @ApiProperty({ type: 'integer' })
  start_within_s?: number;

  /** Seconds that an attempt may run after STARTED. @example 900 */
  @ApiProperty({ type: 'integer' })
  attempt_s?: number;
}

@ApiSchema({ name: 'EventDeliveryInput', description: DELIVERY_DESCRIPTION })
export class EventDeliveryInputDto {
  /** Topic of the event feed. @example word-counts */
  @IsText({ min: 1, max: 255, pattern: NO_CONTROL_CHARACTERS, form: 'a string without control characters' })
  topic: string;

  /** Labels for readers of the feed. */
  @OptionalField()
  @IsTextMap()
  attributes?: Record<string, string>;
}

@ApiSchema({
  name: 'EventAttributesInput',
  description: 'What a run adds to the event delivery of its definition.',
})
export class EventAttributesInputDto {
  /** Labels for readers of the feed, which replace those of the definition key by key. */
  @OptionalField()
  @IsTextMap()
  attributes?: Record<string, string>;
}

@ApiSchema({ name: 'EventDelivery', description: DELIVERY_DESCRIPTION })
export class EventDeliveryDto {
  /** Topic of the event feed. @example word-counts */
  topic: string;

  /** Labels for readers of the feed. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  attributes?: Record<string, string>;
}

/** A retry policy of a request, or of a definition as it is shown. */
export type RequestedRetryPolicy = {
  readonly [F in keyof RetryPolicyDto]?: RetryPolicyDto[F] | null | undefined;
};

/** The options of a run or a definition that a request may leave out. */
interface RequestedOptions {
  readonly constraints?: RequestedConstraints | undefined;
  readonly retry_policy?: RequestedRetryPolicy | undefined;
  readonly timeouts?: TimeoutsInputDto | undefined;
}

type StoredRetryPolicy = Pick<Run, 'maxAttempts' | 'backoffS' | 'maxBackoffS' | 'retryOn'>;
type StoredTimeouts = Pick<Run, 'startWithinS' | 'attemptTimeoutS'>;

/** The columns that hold the options, with the documented defaults. */
export function toStoredOptions({
  constraints,
  retry_policy: policy,
  timeouts,
}: RequestedOptions): StoredRetryPolicy & StoredTimeouts & ReturnType<typeof toStoredConstraints> {
  return {
    maxAttempts: policy?.max_attempts ?? 1,
    backoffS: policy?.backoff_s ?? 0,
    maxBackoffS: policy?.max_backoff_s ?? 0,
    retryOn: policy?.retry_on?.join(',') ?? null,
    startWithinS: timeouts?.start_within_s ?? null,
    attemptTimeoutS: timeouts?.attempt_s ?? null,
    // V8 adds members to a copy slowly.
    ...toStoredConstraints(constraints),
  };
}

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

/** Undefined, to be left out of the response, when there is no timeout. */
export function toTimeoutsDto({ startWithinS, attemptTimeoutS }: StoredTimeouts): TimeoutsDto | undefined {
  if (startWithinS === null && attemptTimeoutS === null) return undefined;
  return {
    ...(startWithinS !== null && { start_within_s: startWithinS }),
    ...(attemptTimeoutS !== null && { attempt_s: attemptTimeoutS }),
  };
}

/** Null without a topic. */
export function toEventDeliveryDto({
  topic,
  attributes,
}: {
  readonly topic: string | null;
  readonly attributes: Record<string, string> | null;
}): EventDeliveryDto | null {
  return topic === null ? null : { topic, ...(attributes !== null && { attributes }) };
}

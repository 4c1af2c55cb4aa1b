import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { clip } from '@longshore/common/json/text';
import {
  CheckBy,
  type IntegerRange,
  IsJsonInteger,
  IsText,
  IsTextMap,
  OptionalField,
  SHOWN_TEXT,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import type { Run } from '../machine/run.js';
import { toStoredConstraints, type RequestedConstraints } from './constraints.dto.js';
import type { RequestedRetryPolicy, StoredRetryPolicy } from './retry-policy.dto.js';

/** A container image as runs and definitions name it. */
const IMAGE_REFERENCE: TextShape = {
  min: 1,
  max: 512,
  // oxlint-disable-next-line no-control-regex -- the pattern excludes control characters, and those that change the direction of text
  pattern: /^[^\s\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]*$/,
  form: 'an image reference without white space',
};

/** How other tools begin a reference to an image, and the form of enroot. */
const FOREIGN_IMAGE =
  /^(?:(?:docker|docker-daemon|oras|podman|https?):\/\/(?<plain>.+)|(?<host>[^/#]+)#(?<path>.+))$/;

/** A field with a reference to a container image. */
export function ImageField(): PropertyDecorator {
  return applyDecorators(
    CheckBy('isPlainImage', (value, path) => {
      const { plain, host, path: name } = FOREIGN_IMAGE.exec(String(value))?.groups ?? {};
      const right = plain ?? (host === undefined ? undefined : `${host}/${name}`);
      return right === undefined ? undefined : `${path} must be without a scheme and #: ${clip(right, 512)}`;
    }),
    IsText(IMAGE_REFERENCE),
  );
}

/** A priority: a signed 32-bit integer. */
export const PRIORITY = { min: -(2 ** 31), max: 2 ** 31 - 1 } as const satisfies IntegerRange;

/** A timeout in seconds: at most 366 days. */
const TIMEOUT: IntegerRange = { min: 1, max: 31_622_400 };

const TIMEOUTS_DESCRIPTION = 'Timeouts of a run; an absent one does not apply.';
const DELIVERY_DESCRIPTION = "The feed that mirrors a run's events.";

@ApiSchema({ name: 'TimeoutsInput', description: TIMEOUTS_DESCRIPTION })
export class TimeoutsInputDto {
  /**
   * Seconds within which a worker has to begin with an attempt, by PREPARING or STARTED, once it can be claimed; over it the run
   * is FAILED for good.
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
  /** Seconds within which a worker must begin with a claimable attempt. @example 3600 */
  @ApiProperty({ type: 'integer' })
  start_within_s?: number;

  /** Seconds that an attempt may run after STARTED. @example 900 */
  @ApiProperty({ type: 'integer' })
  attempt_s?: number;
}

@ApiSchema({ name: 'EventDeliveryInput', description: DELIVERY_DESCRIPTION })
export class EventDeliveryInputDto {
  /** Topic of the event feed. @example word-counts */
  @IsText({ min: 1, max: 255, ...SHOWN_TEXT })
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

/** The options of a run or a definition that a request may leave out. */
interface RequestedPolicies {
  readonly constraints?: RequestedConstraints | undefined;
  readonly retry_policy?: RequestedRetryPolicy | undefined;
  readonly timeouts?: TimeoutsInputDto | undefined;
}

type StoredTimeouts = Pick<Run, 'startWithinS' | 'attemptTimeoutS'>;

/** The columns that hold the options, with the documented defaults. */
export function toStoredPolicies({
  constraints,
  retry_policy: policy,
  timeouts,
}: RequestedPolicies): StoredRetryPolicy & StoredTimeouts & ReturnType<typeof toStoredConstraints> {
  return {
    maxAttempts: policy?.max_attempts ?? 1,
    backoffS: policy?.backoff_s ?? 0,
    maxBackoffS: policy?.max_backoff_s ?? 0,
    retryOn: policy?.retry_on?.join(',') ?? null,
    startWithinS: timeouts?.start_within_s ?? null,
    attemptTimeoutS: timeouts?.attempt_s ?? null,
    // V8 adds members to a copy slowly.
    ...toStoredConstraints(constraints, policy?.grow),
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

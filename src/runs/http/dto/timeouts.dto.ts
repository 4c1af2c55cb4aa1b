import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsJsonInteger, OptionalField } from '../../../common/http/validation/dto-decorators.js';

/** A time budget in seconds: up to 366 days. */
const BUDGET = { min: 1, max: 31_622_400 } as const;

const DESCRIPTION = 'Timeouts of a run; an absent one does not apply.';

@ApiSchema({ name: 'TimeoutsInput', description: DESCRIPTION })
export class TimeoutsInputDto {
  /**
   * Seconds within which an attempt has to report STARTED once it can be claimed; over it the run is FAILED for good.
   * @example 3600
   */
  @OptionalField()
  @IsJsonInteger(BUDGET)
  start_within_s?: number;

  /**
   * Seconds that an attempt may run after STARTED; over it the attempt is FAILED, and the retry policy decides what follows.
   * @example 900
   */
  @OptionalField()
  @IsJsonInteger(BUDGET)
  attempt_s?: number;
}

@ApiSchema({ name: 'Timeouts', description: DESCRIPTION })
export class TimeoutsDto {
  /** Seconds within which a claimable attempt must report STARTED. */
  @ApiProperty({ type: 'integer', required: false, example: 3600 })
  start_within_s?: number;

  /** Seconds that an attempt may run after STARTED. */
  @ApiProperty({ type: 'integer', required: false, example: 900 })
  attempt_s?: number;
}

/** Time budgets as they are stored, in seconds; null: not limited. */
export interface StoredTimeouts {
  readonly startWithinS: number | null;
  readonly attemptTimeoutS: number | null;
}

/** What is stored of the budgets that a request gave. */
export function storedTimeouts(timeouts: TimeoutsInputDto | null | undefined): StoredTimeouts {
  return {
    startWithinS: timeouts?.start_within_s ?? null,
    attemptTimeoutS: timeouts?.attempt_s ?? null,
  };
}

/** The block `timeouts` with the budgets that were given; undefined, and left out of the answer, when none was. */
export function toTimeoutsDto({ startWithinS, attemptTimeoutS }: StoredTimeouts): TimeoutsDto | undefined {
  if (startWithinS === null && attemptTimeoutS === null) return undefined;
  return {
    ...(startWithinS === null ? {} : { start_within_s: startWithinS }),
    ...(attemptTimeoutS === null ? {} : { attempt_s: attemptTimeoutS }),
  };
}

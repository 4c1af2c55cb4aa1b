import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import {
  Check,
  IsJsonInteger,
  IsText,
  JsonObject,
  Nested,
  OptionalField,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { QueryBoolean, QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import { RUN_STATES } from '../machine/run-state.js';
import { EventDeliveryInputDto, ImageField, PRIORITY } from './timeouts-and-delivery.dto.js';
import { GrowsFromConstraints, RetryPolicyInputDto } from './retry-policy.dto.js';
import { LabelsField, RUN_NAME, RunExecutionOptionsInputDto } from './execution-options.dto.js';
import type { LabelChanges } from '../machine/run.js';

@ApiSchema({ name: 'OpRunCreate', description: 'A run to create.' })
export class CreateRunDto extends RunExecutionOptionsInputDto {
  /** Container image. @example longshore/word-count */
  @ImageField()
  image: string;

  /** What the container finds in its input file. @example {"text": "to be or not to be"} */
  @OptionalField()
  @JsonObject()
  inputs?: JsonObjectValue;

  /** How often a failed attempt is repeated. */
  @OptionalField()
  @Nested(() => RetryPolicyInputDto)
  @GrowsFromConstraints()
  retry_policy?: RetryPolicyInputDto;

  /** Feed that mirrors the run's events; without it that of SERVICE_DEFAULT_TOPIC, if the service has one. */
  @OptionalField()
  @Nested(() => EventDeliveryInputDto)
  event_delivery?: EventDeliveryInputDto;
}

@ApiSchema({ name: 'OpRunUpdate', description: 'A direct change of a run. Absent fields stay unchanged.' })
export class UpdateRunDto {
  /** Any state, from any state; PENDING makes the run claimable again, a terminal state locks it. */
  @OptionalField()
  @IsText()
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', required: false })
  state?: string;

  /** Replaces the outputs as a whole. */
  @OptionalField()
  @JsonObject()
  outputs?: JsonObjectValue;

  /** Higher is scheduled first. */
  @OptionalField()
  @IsJsonInteger(PRIORITY)
  priority?: number;
}

@ApiSchema({ name: 'RunLabelsUpdate', description: 'A change of the name and the labels of a run.' })
export class UpdateLabelsDto {
  /** Labels to set, by key; null removes one. The others stay as they are. @example {"team": "vision", "draft": null} */
  @LabelsField()
  labels?: LabelChanges;

  /** Name of the run; null: none. Absent: it stays as it is. */
  @IsOptional()
  @IsText(RUN_NAME)
  @ApiProperty({ required: false, nullable: true })
  name?: string | null;
}

@ApiSchema({ name: 'CancelRequest', description: 'What is said about a cancellation.' })
export class CancelRunDto {
  /** Why; shown as `execution_summary.cancel_reason`. @example The input was wrong. */
  @OptionalField()
  @IsText({ min: 1, max: 500, ...SHOWN_TEXT })
  reason?: string;

  /**
   * true, for admins: also ends the program at once, without the rest of its `stop_grace_s`. Then the run may have ended
   * before, if its program is still being ended.
   */
  @OptionalField()
  @Check('isBoolean', (value) => typeof value === 'boolean', 'must be true or false')
  @ApiProperty({ type: 'boolean', required: false })
  kill?: boolean;
}

export class CreateRunQueryDto {
  /** `true` creates nothing: the answer, 200, is what would be created. No idempotency key is used. */
  @QueryBoolean()
  dry_run?: boolean;
}

export class RetryRunQueryDto {
  /** `true`: if the new attempt completes, the runs are opened again that the earlier end has cancelled. */
  @IsOptional()
  @QueryBoolean()
  dependents?: boolean;
}

/** What the answer of a run may wait for. */
export const RUN_WAITS = ['ended', 'started', 'changed'] as const;
export type RunWait = (typeof RUN_WAITS)[number];

export class GetRunQueryDto {
  /** false leaves `events` empty, for callers who poll the state. */
  @IsOptional()
  @QueryBoolean()
  include_events?: boolean;

  /** Seconds to wait until it is as `until` says; then the answer is the run as it is. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 60 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;

  /**
   * What `wait` waits for: the run has `ended`; it has `started` (RUNNING) or ended; or it has `changed` since the version in
   * `If-None-Match`, without one since the request arrived.
   */
  @IsOptional()
  @QueryString({ oneOf: RUN_WAITS })
  @ApiProperty({ required: false, default: 'ended' })
  until?: RunWait;
}

import { ApiProperty, ApiSchema, OmitType } from '@nestjs/swagger';
import { IsOptional, ValidateBy } from 'class-validator';
import { IsText, JsonObject, OptionalField } from '../../common/http/validation/dto-decorators.js';
import { QueryBoolean, QueryInteger } from '../../common/http/validation/query-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import type { SentTimelineRow, TimelineRow } from '../events/event.repository.js';
import { EVENT_TYPE_PATTERN } from '../machine/event-types.js';
import { RUN_STATES, type RunState } from '../machine/run-state.js';

@ApiSchema({ name: 'AddEventRequest', description: 'An event to add to the timeline of a run.' })
export class AddEventDto {
  /** STARTED, PROGRESS, COMPLETED, FAILED, CANCELLED, RETRIED, or a type of your own. @example PROGRESS */
  @ApiProperty({ pattern: EVENT_TYPE_PATTERN.source })
  @IsText({ min: 1, max: 64 })
  type: string;

  /** Text, or for PROGRESS the percentage. @example 40 */
  @ValidateBy({
    name: 'isMessage',
    validator: {
      validate: (value: unknown) => typeof value === 'string' || Number.isSafeInteger(value),
      defaultMessage: () => '$property must be a string or an integer',
    },
  })
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }] })
  msg: string | number;

  /** What belongs to the event; STARTED, COMPLETED, FAILED and RETRIED read fields of it. */
  @OptionalField()
  @JsonObject()
  payload?: JsonObjectValue;
}

@ApiSchema({ name: 'TimelineEvent', description: 'An event on the timeline of a run.' })
export class TimelineEventDto {
  /** Index in the run's whole timeline, from 0. */
  @ApiProperty({ type: 'integer' })
  id: number;
  /** Number of the attempt it belongs to. */
  @ApiProperty({ type: 'integer' })
  attempt: number;
  /** @example PROGRESS */
  type: string;
  /** When it was recorded, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }] })
  msg: string | number;
  @ApiProperty({ type: 'object', additionalProperties: true })
  payload: JsonObjectValue;
}

@ApiSchema({
  name: 'PolledEvent',
  description: 'An event on the timeline of a run, with the current state of the run.',
})
export class PolledEventDto extends OmitType(TimelineEventDto, ['attempt']) {
  /** State of the run now, the same for all entries. */
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' })
  state: RunState;
  /** Id of the API key that sent it, null for the service itself; only with `include_sender`. */
  @ApiProperty({ type: 'string', format: 'uuid', nullable: true })
  sender?: string | null;
}

@ApiSchema({ name: 'PolledEvents', description: 'Events on the timeline of a run.' })
export class PolledEventsDto {
  events: PolledEventDto[];
}

export class PollEventsQueryDto {
  /** Only events with a greater index are returned; -1 means all. */
  @IsOptional()
  @QueryInteger({ min: -1 })
  after?: number;

  /** Adds `sender` to each event; only for a key with the scope `admin`. */
  @IsOptional()
  @QueryBoolean()
  include_sender?: boolean;

  /** Seconds to wait for an event, or for the end of the run, before an empty answer. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;
}

export function toTimelineEventDto({ index, attempt, type, t, msg, payload }: TimelineRow): TimelineEventDto {
  return { id: index, attempt, type, t: t.toISOString(), msg, payload };
}

/** @param state the run's present state */
export function toPolledEventDto(
  { index, type, t, msg, payload, sender }: SentTimelineRow,
  state: RunState,
  withSender: boolean,
): PolledEventDto {
  return { id: index, type, t: t.toISOString(), msg, state, payload, ...(withSender && { sender }) };
}

import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { QueryInteger } from '../../../common/http/validation/query-decorators.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { TimelineRow } from '../../events/event.repository.js';
import { RUN_STATES, type RunState } from '../../machine/run-state.js';
import { IsOptional } from 'class-validator';

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
  payload: JsonObject;
}

@ApiSchema({
  name: 'PolledEvent',
  description: 'An event on the timeline of a run, with the current state of the run.',
})
export class PolledEventDto {
  /** Index in the run's whole timeline, from 0. */
  @ApiProperty({ type: 'integer' })
  id: number;
  /** @example PROGRESS */
  type: string;
  /** When it was recorded, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }] })
  msg: string | number;
  /** State of the run now, the same for all entries. */
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' })
  state: RunState;
  @ApiProperty({ type: 'object', additionalProperties: true })
  payload: JsonObject;
}

@ApiSchema({ name: 'PolledEvents', description: 'Events on the timeline of a run.' })
export class PolledEventsDto {
  events: PolledEventDto[];
}

/** Query of a poll. */
export class PollEventsQueryDto {
  /** Only events with a greater index are returned; -1 means all. */
  @IsOptional()
  @QueryInteger({ min: -1 })
  after?: number;
}

/** The entry as it stands in a run or an attempt. */
export function toTimelineEventDto(event: TimelineRow): TimelineEventDto {
  const { index, attempt, type, t, msg, payload } = event;
  return { id: index, attempt, type, t: t.toISOString(), msg, payload };
}

/** The entry as a poll shows it. */
export function toPolledEventDto(event: TimelineRow, state: RunState): PolledEventDto {
  const { index, type, t, msg, payload } = event;
  return { id: index, type, t: t.toISOString(), msg, state, payload };
}

import { SHOWN_TEXT } from '../common/http/validation/dto-decorators.js';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { EXAMPLE_TOPIC } from '../common/http/api-examples.js';
import { QueryInteger, QueryString } from '../common/http/validation/query-decorators.js';
import type { JsonObject } from '@longshore/common/json/json-value';

const TOPIC = {
  min: 1,
  max: 255,
  ...SHOWN_TEXT,
} as const;

class TopicQueryDto {
  /** Topic that runs name in their event_delivery. */
  @QueryString({ ...TOPIC, required: true })
  @ApiProperty({ example: EXAMPLE_TOPIC })
  topic: string;
}

export class FeedStreamQueryDto extends TopicQueryDto {
  /** Only events after this cursor; by default from the oldest stored event. */
  @QueryString()
  @ApiProperty({ required: false, example: 'AAAAAAAAAAEm6-5TRbw' })
  after?: string;
}

export class FeedCursorQueryDto extends TopicQueryDto {
  /** Number of the newest events after the cursor; 0: only future events. */
  @QueryInteger({ min: 0, max: 1_000_000, default: 0 })
  back?: number;
}

export class FeedPageQueryDto extends FeedStreamQueryDto {
  /** Most events of the page. */
  @QueryInteger({ min: 1, max: 500, default: 100 })
  limit?: number;

  /** Seconds to wait for an event before an empty page. */
  @QueryInteger({ min: 0, max: 30, default: 0 })
  wait?: number;
}

@ApiSchema({ name: 'FeedEvent', description: "An event of a topic's feed." })
export class FeedEventDto {
  /** Continues the feed after this event. @example AAAAAAAAAAEm6-5TRbw */
  cursor: string;
  /** Id of the run. @example 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b */
  run_id: string;
  /** Number of the attempt it belongs to. */
  @ApiProperty({ type: 'integer', example: 1 })
  attempt: number;
  /** @example PROGRESS */
  type: string;
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }], example: 50 })
  msg: string | number;
  /** When it was recorded, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;
  /** State of the run after the event. */
  @ApiProperty({ allOf: [{ $ref: '#/components/schemas/RunState' }] })
  state: string;
  @ApiProperty({ type: 'object', additionalProperties: true })
  payload: JsonObject;
  /** True of the event that ended the run; absent of others. A forced retry starts the run again. */
  @ApiProperty({ type: 'boolean', example: true })
  ended?: true;
  /** Name of the run; absent if it has none. */
  name?: string;
  /** Labels of the run; absent if it has none. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  labels?: Record<string, string>;
  /** Attributes of the run's event_delivery; absent if it has none. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  attributes?: Record<string, string>;
}

@ApiSchema({ name: 'FeedPage', description: "A page of a topic's feed." })
export class FeedPageDto {
  /** Oldest first. A page may hold fewer events than asked for although more follow. */
  @ApiProperty({ type: [FeedEventDto] })
  events: FeedEventDto[];
  /** Continues after the last event of the page; null for a page without events. */
  @ApiProperty({ type: 'string', nullable: true, example: 'AAAAAAAAAAEm6-5TRbw' })
  next_cursor: string | null;
  /** Whether more events are stored. */
  has_more: boolean;
}

@ApiSchema({ name: 'FeedCursor', description: "A position in a topic's feed." })
export class FeedCursorDto {
  /** To be sent as `after`. @example AAAAAAAAAAEm6-5TRbw */
  cursor: string;
}

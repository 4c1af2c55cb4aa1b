import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { EXAMPLE_TOPIC } from '../../common/http/api-examples.js';
import { QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';

const TOPIC = {
  min: 1,
  max: 255,
  pattern: NO_CONTROL_CHARACTERS,
  form: 'a string without control characters',
} as const;

class TopicQueryDto {
  /** Topic that runs name in their event_delivery. */
  @QueryString(TOPIC)
  @ApiProperty({ example: EXAMPLE_TOPIC })
  topic: string;
}

export class FeedStreamQueryDto extends TopicQueryDto {
  /** Only events after this cursor; by default from the oldest stored event. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ required: false, example: 'AAAAAAAAAAEm6-5TRbw' })
  after?: string;
}

export class FeedCursorQueryDto extends TopicQueryDto {
  /** Number of the newest events after the cursor; 0: only future events. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 1_000_000 })
  @ApiProperty({ required: false, default: 0 })
  back?: number;
}

export class FeedPageQueryDto extends FeedStreamQueryDto {
  /** Most events of the page. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 500 })
  @ApiProperty({ required: false, default: 100 })
  limit?: number;

  /** Seconds to wait for an event before an empty page. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;
}

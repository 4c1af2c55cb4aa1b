import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { FeedEventDto } from './feed-event.dto.js';

@ApiSchema({ name: 'FeedPage', description: "A page of a topic's feed." })
export class FeedPageDto {
  /** Oldest first. A page may hold fewer events than asked for although more follow. */
  @ApiProperty({ type: [FeedEventDto] })
  events: FeedEventDto[];
  /** Continues behind the last event of the page; null for a page without events. */
  @ApiProperty({ type: 'string', nullable: true, example: 'AAAAAAAAAAEm6-5TRbw' })
  next_cursor: string | null;
  /** Whether more events are there already. */
  has_more: boolean;
}

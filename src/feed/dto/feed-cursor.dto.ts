import { ApiSchema } from '@nestjs/swagger';

/** A place in the feed of a topic. */
@ApiSchema({ name: 'FeedCursor' })
export class FeedCursorDto {
  /** Give it as `after`. @example AAAAAAAAAAEm6-5TRbw */
  cursor: string;
}

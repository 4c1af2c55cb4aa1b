import { ApiSchema } from '@nestjs/swagger';

@ApiSchema({ name: 'FeedCursor', description: "A position in a topic's feed." })
export class FeedCursorDto {
  /** Give it as `after`. @example AAAAAAAAAAEm6-5TRbw */
  cursor: string;
}

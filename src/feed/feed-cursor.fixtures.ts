import { cursorsOf } from './feed-cursor.js';

/** One cursor, as the service makes it. */
export function encodeCursor(topic: string, position: number, epoch: string | null = null): string {
  return cursorsOf(topic, epoch)(position);
}

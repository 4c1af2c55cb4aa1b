import { cursorsOf } from './feed-cursors.js';

/** One cursor, as the service makes it. */
export function encodeCursor(topic: string, position: number, epoch: string | null = null): string {
  return cursorsOf(topic, epoch)(position);
}

import type { QueuePosition } from './low-water-marks.js';

/** Channel that announces runs that became claimable. */
export const QUEUE_CHANNEL = 'longshore_queue';

/**
 * Channel that announces, by id, workers that no longer hold a run: all of them if the strategy considers free capacity,
 * else those that did not report its end.
 */
export const FREE_WORKERS_CHANNEL = 'longshore_free_workers';

/** Priorities that one notification names; one about more names none. */
const MAX_PRIORITIES = 50;

const LEAST_ID = '00000000-0000-0000-0000-000000000000';

export interface QueueNotification {
  readonly count: number;
  /** For each priority a position before which nothing was put; null: unknown. */
  readonly from: readonly QueuePosition[] | null;
}

/** The count, then `priority:milliseconds` of the oldest run that was put, for each priority. */
export function formatQueueNotification(count: number, put: readonly QueuePosition[]): string {
  const oldest = new Map<number, number>();
  for (const { priority, createdAt } of put) {
    oldest.set(priority, Math.min(createdAt.getTime(), oldest.get(priority) ?? Number.POSITIVE_INFINITY));
  }
  if (oldest.size > MAX_PRIORITIES) return String(count);
  return [count, ...[...oldest].map(([priority, ms]) => `${priority}:${ms}`)].join(' ');
}

export function parseQueueNotification(text: string): QueueNotification {
  const [count, ...words] = text.split(' ');
  const from = words.map((name) => {
    const [priority = 0, ms = 0] = name.split(':').map(Number);
    return { priority, createdAt: new Date(ms), id: LEAST_ID };
  });
  return { count: Number(count), from: from.length > 0 ? from : null };
}

import { LEAST_ID, type QueueSpot } from './low-water-marks.js';

/** What a notification of the queue tells. */
export interface QueueNotifications {
  /** Runs that have become claimable. */
  readonly count: number;
  /** For each priority a spot before which nothing was put; null: that is not known. */
  readonly from: readonly QueueSpot[] | null;
}

/** Priorities that one notification names; with more it says that it does not know. */
const MOST_PRIORITIES = 50;

/** The text of a notification: the count, then `priority:milliseconds` of the oldest run that was put, for each priority. */
export function queueNews(count: number, put: readonly QueueSpot[]): string {
  const oldest = new Map<number, number>();
  for (const { priority, createdAt } of put) {
    oldest.set(priority, Math.min(createdAt.getTime(), oldest.get(priority) ?? Number.POSITIVE_INFINITY));
  }
  const isKnown = oldest.size > 0 && oldest.size <= MOST_PRIORITIES;
  return [count, ...(isKnown ? [...oldest].map(([priority, ms]) => `${priority}:${ms}`) : [])].join(' ');
}

/** Reads such a text; one by another version of the service may lack the spots. */
export function readQueueNews(text: string): QueueNotifications {
  const [count, ...named] = text.split(' ');
  const from = named.map((name) => {
    const [priority, ms] = name.split(':').map(Number);
    return { priority: priority ?? Number.NaN, createdAt: new Date(ms ?? Number.NaN), id: LEAST_ID };
  });
  const isKnown =
    from.length > 0 &&
    from.every(({ priority, createdAt }) => Number.isInteger(priority) && !Number.isNaN(createdAt.getTime()));
  return { count: Number(count), from: isKnown ? from : null };
}

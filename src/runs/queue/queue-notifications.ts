import type { Lane } from './lane.js';
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

/** A run that claims may read now and could not before. */
export interface ClaimableRun extends QueuePosition {
  readonly lane: string;
}

/** Runs that became claimable together. */
export interface QueueNotification {
  /** How many every worker may get at any time. */
  readonly plain: number;
  /** For each priority of these, a position before which nothing was put; null: unknown. */
  readonly from: readonly QueuePosition[] | null;
  /** How many are in other lanes. */
  readonly others: number;
  /** These lanes; null: unknown. */
  readonly lanes: readonly Lane[] | null;
}

/** The text of a notification. A field that is absent is 0 or unknown; `from` has pairs of priority and milliseconds. */
interface Announced {
  readonly plain?: number;
  readonly from?: readonly (readonly [number, number])[];
  readonly others?: number;
  readonly lanes?: Readonly<Record<string, readonly string[]>> | null;
}

/** The fields `plain` and `from` of a notification. @param put the plain runs */
export function plainFields(put: readonly QueuePosition[]): Pick<Announced, 'plain' | 'from'> {
  const oldest = new Map<number, number>();
  for (const { priority, createdAt } of put) {
    oldest.set(priority, Math.min(createdAt.getTime(), oldest.get(priority) ?? Number.POSITIVE_INFINITY));
  }
  if (put.length === 0) return {};
  return { plain: put.length, ...(oldest.size <= MAX_PRIORITIES ? { from: [...oldest] } : {}) };
}

export function parseQueueNotification(text: string): QueueNotification {
  const { plain = 0, from, others = 0, lanes = null }: Announced = JSON.parse(text);
  const positions = from?.map(([priority, ms]) => ({ priority, createdAt: new Date(ms), id: LEAST_ID }));
  return {
    plain,
    from: positions ?? (plain === 0 ? [] : null),
    others,
    lanes: others === 0 ? [] : lanes && Object.entries(lanes).map(([id, required]) => ({ id, required })),
  };
}

import type { Lane } from './lane.js';

/** Channel that announces runs of the restricted queue that became claimable. */
export const RESTRICTED_CHANNEL = 'longshore_restricted';

/** Most lanes that a notification names; with more, it names none. */
export const MAX_NAMED = 100;

export interface RestrictedNotification {
  readonly count: number;
  /** The lanes of the runs; null: unknown. */
  readonly lanes: readonly Lane[] | null;
}

/** A notification; without `lanes`, whose lists are by id, if that is too long. */
interface Announced {
  readonly count: number;
  readonly lanes?: Readonly<Record<string, readonly string[]>> | null;
}

export function parseRestrictedNotification(text: string): RestrictedNotification {
  const { count, lanes = null }: Announced = JSON.parse(text);
  return { count, lanes: lanes && Object.entries(lanes).map(([id, required]) => ({ id, required })) };
}

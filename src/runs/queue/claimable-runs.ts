import type { ClaimablePart } from '../../database/notices/commit-notice.js';
import { PLAIN_LANE, type Lane } from './lane.js';
import type { QueuePosition } from './plain-lane.js';

/** Priorities that one notice names; one about more names none. */
const MAX_PRIORITIES = 50;

/** Bytes of lanes that one notice names; one about more names none. */
const MAX_LANE_BYTES = 2_500;

const LEAST_ID = '00000000-0000-0000-0000-000000000000';

/** A run that claims may read now and could not before. */
export interface ClaimableRun extends QueuePosition {
  readonly lane: Lane;
}

/** Runs that became claimable together. */
export interface QueueNotice {
  /** How many every worker may get at any time. */
  readonly plain: number;
  /** For each priority of these, a position before which nothing was put; null: unknown. */
  readonly from: readonly QueuePosition[] | null;
  /** How many are in other lanes. */
  readonly others: number;
  /** These lanes; null: unknown. */
  readonly lanes: readonly Lane[] | null;
}

/** The runs as part of a commit notice. */
export function claimablePart(runs: readonly ClaimableRun[]): ClaimablePart {
  const oldest = new Map<number, number>();
  const lanes: Record<string, readonly string[]> = {};
  let plain = 0;
  for (const { priority, createdAt, lane } of runs) {
    if (lane.id !== PLAIN_LANE) {
      lanes[lane.id] = lane.required;
      continue;
    }
    plain += 1;
    oldest.set(priority, Math.min(createdAt.getTime(), oldest.get(priority) ?? Number.POSITIVE_INFINITY));
  }
  const others = runs.length - plain;
  const isNamed = others > 0 && Buffer.byteLength(JSON.stringify(lanes)) <= MAX_LANE_BYTES;
  return {
    ...(plain > 0 && { plain, ...(oldest.size <= MAX_PRIORITIES && { from: [...oldest] }) }),
    ...(others > 0 && { others, ...(isNamed && { lanes }) }),
  };
}

export function readClaimablePart({ plain = 0, from, others = 0, lanes }: ClaimablePart): QueueNotice {
  const positions = from?.map(([priority, ms]) => ({ priority, createdAt: new Date(ms), id: LEAST_ID }));
  const known = lanes && Object.entries(lanes).map(([id, required]) => ({ id, required }));
  return {
    plain,
    from: positions ?? (plain === 0 ? [] : null),
    others,
    lanes: others === 0 ? [] : (known ?? null),
  };
}

import { isHeld } from './machine/run.js';

/** Why a PENDING run waits, and what that means. The first reason that holds is given, in this order. */
export const PENDING_REASONS = {
  start_at: 'its start_at lies in the future',
  back_off: 'the pause after a failed or lost attempt is not over',
  dependency: 'another run on which it depends has not ended',
  paused: 'an admin has paused such runs',
  concurrency: 'other runs of its concurrency key go first, as many as the key permits',
  no_worker: 'no worker is active, or all that could execute it are draining or say that they do not claim',
  capability: 'no active worker has the capabilities that its options and constraints need',
  selector: 'no active worker with these capabilities has the tags of its selector and gpu_selector',
  resources: 'no active worker with its tags and capabilities is large enough, even when idle',
  queue: 'a worker could execute it: it waits for its turn, or for free resources',
} as const satisfies Readonly<Record<string, string>>;

export type PendingReason = keyof typeof PENDING_REASONS;

/** Names of all reasons. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- keys forgets the names
export const PENDING_REASON_NAMES = Object.keys(PENDING_REASONS) as readonly PendingReason[];

/** The reasons with their descriptions, in words. */
export const PENDING_REASON_LIST = `Why a run is PENDING, the first of these that holds: ${Object.entries(
  PENDING_REASONS,
)
  .map(([reason, meaning]) => `\`${reason}\` (${meaning})`)
  .join(', ')}.`;

/** Runs by the reason for which they are pending. */
export type ReasonCounts = Record<PendingReason, number>;

export function noneByReason(): ReasonCounts {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- fromEntries forgets the names
  return Object.fromEntries(PENDING_REASON_NAMES.map((reason) => [reason, 0])) as ReasonCounts;
}

/** The reason that the run itself and pauses tell; null: it may be claimed as far as they know. */
export function ownReason(
  {
    notBefore,
    startAt,
    waitsFor,
  }: { readonly notBefore: Date | null; readonly startAt: Date | null; readonly waitsFor: number | null },
  isPaused: boolean,
): PendingReason | null {
  if (notBefore !== null && !isHeld({ notBefore }))
    return notBefore.getTime() === startAt?.getTime() ? 'start_at' : 'back_off';
  if (waitsFor !== null) return 'dependency';
  if (isPaused) return 'paused';
  return notBefore === null ? null : 'concurrency';
}

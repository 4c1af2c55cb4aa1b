import type { Schemas } from '@longshore/client';

/** An event of a feed as the API has it. */
export type FeedEvent = Schemas['FeedEvent'];

/** Events that a page keeps, so that a feed of any length does not fill the tab. */
export const MOST_KEPT = 2000;

/** The newest events of a feed, as far as they have arrived. */
export interface FeedBuffer {
  /** The newest first. */
  readonly events: readonly FeedEvent[];
  /** How many have arrived, also those that are no longer kept. */
  readonly total: number;
}

export const EMPTY_BUFFER: FeedBuffer = { events: [], total: 0 };

/** @param arrived the oldest first, behind those that are there */
export function append(buffer: FeedBuffer, arrived: readonly FeedEvent[], most = MOST_KEPT): FeedBuffer {
  const newest = arrived.slice(-most).toReversed();
  return {
    events: [...newest, ...buffer.events.slice(0, most - newest.length)],
    total: buffer.total + arrived.length,
  };
}

/** Whether the event has the text in its type, the id of its run or its message. */
export function matches({ type, run_id: runId, msg }: FeedEvent, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return [type, runId, String(msg)].some((word) => word.toLowerCase().includes(wanted));
}

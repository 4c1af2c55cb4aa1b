import type { JsonObject } from '@longshore/common/json/json-value';
import type { TimelineRow } from './event.repository.js';

/** An event of a run that is committed, with the field names that the HTTP API uses. */
export interface CommittedEvent {
  readonly run_id: string;
  /** Position in the timeline of the run, from 0, without gaps. */
  readonly index: number;
  /** Number of the attempt that it belongs to, 1-based. */
  readonly attempt: number;
  readonly type: string;
  readonly msg: string | number;
  /** When it was recorded, ISO 8601. */
  readonly t: string;
  /** State of the run after the event. */
  readonly state: string;
  readonly payload: JsonObject;
  /** Topic of the run's feed; null if the run has none. */
  readonly topic: string | null;
  /** Worker of the attempt; null if it has none, or none yet. */
  readonly worker_id: string | null;
}

/** Builds the event of a timeline entry. */
export function toCommittedEvent(
  { runId, index, attempt, type, msg, t, state, payload }: Readonly<TimelineRow>,
  { topic, workerId }: { readonly topic: string | null; readonly workerId: string | null },
): CommittedEvent {
  return {
    run_id: runId,
    index,
    attempt,
    type,
    msg,
    t: t.toISOString(),
    state,
    payload,
    topic,
    worker_id: workerId,
  };
}

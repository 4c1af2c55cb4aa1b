import type { Call, FeedEvent, Outcome } from '../history/history.js';

/** When a backup was made, and when the service it was made of was lost; milliseconds as in a history. */
export interface BackupTimes {
  readonly began: number;
  readonly ended: number;
  readonly lost: number;
}

/**
 * What a history says about the service that was restored from a backup: what was acknowledged before the backup began
 * is in it, what was sent after its end and ended before the loss is not, and what lies between may be or not. What comes
 * after the loss is as it was.
 */
export function cutHistory(history: readonly Call[], { began, ended, lost }: BackupTimes): Call[] {
  return history.flatMap((call): Call[] => {
    if (call.endedAt <= began || call.startedAt >= lost || call.kind === 'heartbeat') return [call];
    // What a read or a claim showed then belongs to the service that was lost.
    if (call.kind === 'read' || (call.startedAt > ended && call.endedAt <= lost)) return [];
    return call.outcome.kind === 'answered' ? [{ ...call, outcome: UNKNOWN }] : [call];
  });
}

const UNKNOWN: Outcome<never> = { kind: 'maybe' };

/** First place at which a restored feed differs from what a reader of the lost one saw; -1: it is its beginning. */
export function differsAt(restored: readonly FeedEvent[], seen: readonly FeedEvent[]): number {
  return restored.findIndex((event, i) => identityOf(event) !== identityOf(seen[i]));
}

function identityOf(event: FeedEvent | undefined): string {
  if (event === undefined) return 'nothing';
  const { runId, attempt, type, t, mark } = event;
  return [runId, attempt, type, t, mark].join(' ');
}

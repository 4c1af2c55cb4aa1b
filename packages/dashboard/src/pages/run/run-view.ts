import type { Schemas } from '../../api/use-api.js';

/** A run, an attempt and an entry of a timeline as the API has them. */
export type Run = Schemas['OpRun'];
export type Attempt = Schemas['OpAttempt'];
export type RunEvent = Schemas['PolledEvent'];

const ENDED: ReadonlySet<Run['state']> = new Set(['COMPLETED', 'FAILED', 'CANCELLED']);

/** Whether nothing more happens by itself. */
export function isEnded({ state }: Pick<Run, 'state'>): boolean {
  return ENDED.has(state);
}

/** The last event of every attempt before the current one: an attempt's events follow on those of the one before. */
export type AttemptEnds = readonly { readonly attempt: number; readonly lastEvent: number }[];

export function attemptEnds(attempts: readonly Attempt[]): AttemptEnds {
  return attempts.slice(0, -1).flatMap(({ attempt, events }) => {
    const last = events.at(-1);
    return last === undefined ? [] : [{ attempt, lastEvent: last.id }];
  });
}

/** The attempt that an event belongs to. @param current the newest attempt */
export function attemptOf(ends: AttemptEnds, current: number, { id }: Pick<RunEvent, 'id'>): number {
  return ends.find(({ lastEvent }) => id <= lastEvent)?.attempt ?? current;
}

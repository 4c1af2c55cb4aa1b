import type { Schemas } from '@longshore/client';
import { TERMINAL_STATES } from '@longshore/client/constants';

/** An attempt and an entry of a timeline as the API has them. */
export type Attempt = Schemas['OpAttempt'];
export type RunEvent = Schemas['PolledEvent'];

/** Whether nothing more happens by itself. */
export function isEnded({ state }: Pick<Schemas['OpRun'], 'state'>): boolean {
  return TERMINAL_STATES.has(state);
}

/** The number of the attempt, and of how many: attempts that the infrastructure ended use up none of those allowed. */
export function attemptText({
  current_attempt: attempt,
  retry_policy: { max_attempts: allowed },
  execution_summary: { reclaims: lost = 0 },
}: Pick<Schemas['OpRun'], 'current_attempt' | 'retry_policy' | 'execution_summary'>): string {
  if (lost === 0) return `${attempt} of ${Math.max(allowed, attempt)}`;
  const among = allowed > 1 ? ` among the ${allowed} allowed` : '';
  return `${attempt} (${lost} lost to the infrastructure, not counted${among})`;
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

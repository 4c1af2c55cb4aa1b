import { readTimestamp } from '@longshore/common/json/read-timestamp';
import type { JsonObject } from '@longshore/common/json/json-value';

/** When a container started and ended, by the clock of its engine: ISO 8601 in UTC; null: not known. */
export interface ContainerTimes {
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

export const NO_TIMES: ContainerTimes = { startedAt: null, finishedAt: null };

/** Engines say with the year 1 that there is no such time. */
const FIRST_MS = Date.parse('1970-01-02T00:00:00Z');

/** A time as an engine says it. @param given text in ISO 8601, or milliseconds since 1970 */
export function engineTime(given: string | number | null | undefined): string | null {
  const time = typeof given === 'string' ? readTimestamp(given) : new Date(given ?? Number.NaN);
  return time !== null && time.getTime() >= FIRST_MS ? time.toISOString() : null;
}

/** The times as payloads of events hold them: those that are known. */
export function timesPayload({ startedAt, finishedAt }: ContainerTimes): JsonObject {
  return {
    ...(startedAt === null ? {} : { started_at: startedAt }),
    ...(finishedAt === null ? {} : { finished_at: finishedAt }),
  };
}

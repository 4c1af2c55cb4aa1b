import { isPrintable, readTimestamp } from './read-timestamp.js';

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
]);

/** The times that {@link readTime} accepts, to follow "must be". */
export const TIME_FORM =
  'an ISO 8601 date and time with a zone (2030-01-31T09:00:00Z), or a span such as 90s, 15m, 2h or 3d';

/** A regular expression of the spans that {@link readSpan} accepts. */
export const SPAN_PATTERN = '^([0-9]{1,9})([smhd])$';

const SPAN = new RegExp(SPAN_PATTERN);

/** Parses a time span, such as `90s`, `15m`, `2h` or `3d`. @returns milliseconds; null for anything else */
export function readSpan(text: string): number | null {
  const [, count = '', unit = ''] = SPAN.exec(text) ?? [];
  const unitMs = UNITS_MS.get(unit);
  return unitMs === undefined ? null : Number(count) * unitMs;
}

/**
 * Parses a time that a person gives: what {@link readTimestamp} accepts, or a span from now on.
 * @param nowMs milliseconds since 1970
 * @param direction -1: spans lie in the past
 * @returns null for anything else, and for a span that ends at no representable time
 */
export function readTime(text: string, nowMs: number, direction: 1 | -1 = 1): Date | null {
  const span = readSpan(text);
  if (span === null) return readTimestamp(text);
  const time = new Date(nowMs + direction * span);
  return isPrintable(time) ? time : null;
}

const FORM = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$/;

/** Times that are printed with a year of four digits, and that PostgreSQL reads as they are printed. */
const START = Date.parse('0001-01-01T00:00:00.000Z');
const END = Date.parse('9999-12-31T23:59:59.999Z');

/** Parses an ISO 8601 date and time with zone (`2030-01-31T09:00:00+02:00`), to the millisecond; null for anything else. */
export function readTimestamp(text: string): Date | null {
  const match = FORM.exec(text);
  if (!match) return null;
  const [, date, time, fraction = '', sign, hours = '0', minutes = '0'] = match;
  const asUtc = Date.parse(`${date}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}Z`);
  // Date rejects a day such as February 30 or turns it into another day.
  if (Number.isNaN(asUtc) || !new Date(asUtc).toISOString().startsWith(`${date}T${time}`)) return null;
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
  const moment = new Date(asUtc - (sign === '-' ? -offset : offset));
  return isPrintable(moment) ? moment : null;
}

/** The bounds of {@link readInstant} in whole UNIX seconds, as keywords of JSON Schema. */
export const UNIX_SECONDS = { minimum: START / 1000, maximum: Math.floor(END / 1000) } as const;

/** Parses a time of a JSON body: UNIX seconds as a number, fractions included, or a text as {@link readTimestamp} accepts. */
export function readInstant(value: unknown): Date | null {
  if (typeof value === 'string') return readTimestamp(value);
  const moment = new Date(typeof value === 'number' ? Math.round(value * 1000) : Number.NaN);
  return isPrintable(moment) ? moment : null;
}

/**
 * Parses a time of a filter: whole UNIX seconds, a text as {@link readTimestamp} accepts, or a date, which is its first
 * moment in UTC. A space counts as the `+` that a query string must encode.
 */
export function readFilterTime(text: string): Date | null {
  if (/^[+-]?\d{1,15}$/.test(text)) return readInstant(Number(text));
  return readTimestamp(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text.replace(' ', '+'));
}

/** The times that {@link readFilterTime} accepts, to follow "must be". */
export const FILTER_TIME_FORM =
  'UNIX seconds (1793491200), an ISO 8601 date and time with a zone (2026-11-01T00:00:00Z), or a date (2026-11-01, in UTC)';

/** True for a time of the years 1 to 9999. */
export function isPrintable(time: Date): boolean {
  return time.getTime() >= START && time.getTime() <= END;
}

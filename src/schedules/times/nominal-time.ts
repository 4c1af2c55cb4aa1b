import { MINUTE_MS } from './local-minutes.js';
import { TimeZone } from './time-zone.js';

/**
 * A time in a zone with its offset, to the second: `2026-03-29T03:30:00+02:00`. An offset with seconds, as some zones had
 * until 1972, is rounded to the minute, and the local time with it, so that the text is the same moment.
 */
export function formatNominal(at: Date, timezone: string): string {
  const zone = TimeZone.find(timezone);
  if (zone === null) throw new RangeError(`${timezone}: not a time zone of the IANA database`);
  const offset = Math.round(zone.offsetAt(at.getTime()) / MINUTE_MS);
  const local = new Date(at.getTime() + offset * MINUTE_MS).toISOString().slice(0, 19);
  const size = Math.abs(offset);
  const [hours, minutes] = [Math.floor(size / 60), size % 60].map((part) => String(part).padStart(2, '0'));
  return `${local}${offset < 0 ? '-' : '+'}${hours}:${minutes}`;
}

/** The local date of a time in a zone: `2026-03-29`. */
export function localDate(at: Date, timezone: string): string {
  return formatNominal(at, timezone).slice(0, 'yyyy-mm-dd'.length);
}

import { readCronFields, type CronFields } from './cron-fields.js';
import { CronTimetable } from './cron-timetable.js';
import { IntervalTimetable } from './interval-timetable.js';
import { TimeZone } from './time-zone.js';
import type { Timetable } from './timetable.js';

/** When a schedule fires: by `cron` in `timezone`, or every `every_s` seconds from the epoch plus `offset_s`. */
export interface TimesSpec {
  readonly cron?: readonly string[] | undefined;
  readonly every_s?: number | undefined;
  readonly offset_s?: number | undefined;
  /** A name of the IANA database; UTC if not given. */
  readonly timezone?: string | undefined;
}

const MAX_EXPRESSIONS = 10;
const MIN_EVERY_S = 10;

/** The nominal times of a schedule, or what is wrong with each field. */
export function compileTimes(spec: TimesSpec): Timetable | { readonly problems: string[] } {
  if ((spec.cron === undefined) === (spec.every_s === undefined)) {
    return { problems: ['cron, every_s: exactly one of the two is required'] };
  }
  return spec.every_s === undefined
    ? compileCron(spec, spec.cron ?? [])
    : compileInterval(spec, spec.every_s);
}

function compileCron(
  { offset_s, timezone = 'UTC' }: TimesSpec,
  cron: readonly string[],
): ReturnType<typeof compileTimes> {
  const problems: string[] = [];
  const expressions: CronFields[] = [];
  if (cron.length === 0 || cron.length > MAX_EXPRESSIONS) {
    problems.push(`cron: must have 1 to ${MAX_EXPRESSIONS} expressions`);
  }
  for (const [index, text] of cron.slice(0, MAX_EXPRESSIONS).entries()) {
    try {
      expressions.push(readCronFields(text));
    } catch (error) {
      problems.push(`cron.${index}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (offset_s !== undefined) problems.push('offset_s: is for every_s');
  const zone = TimeZone.find(timezone);
  if (zone === null) problems.push(`timezone: ${timezone}: not a time zone of the IANA database`);
  return zone === null || problems.length > 0 ? { problems } : new CronTimetable(expressions, zone);
}

function compileInterval(
  { offset_s = 0, timezone }: TimesSpec,
  every_s: number,
): ReturnType<typeof compileTimes> {
  const problems: string[] = [];
  if (!Number.isSafeInteger(every_s) || every_s < MIN_EVERY_S) {
    problems.push(`every_s: must be an integer of at least ${MIN_EVERY_S}`);
  }
  if (!Number.isSafeInteger(offset_s) || offset_s < 0 || offset_s >= every_s) {
    problems.push('offset_s: must be an integer from 0 to less than every_s');
  }
  if (timezone !== undefined) problems.push('timezone: not with every_s');
  return problems.length > 0 ? { problems } : new IntervalTimetable(every_s * 1_000, offset_s * 1_000);
}

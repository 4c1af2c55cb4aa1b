import { CronExpressionParser } from 'cron-parser';

/** The values of a cron expression. */
export interface CronFields {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  /** The field of the hour is `*`. */
  readonly everyHour: boolean;
  /** From 1. */
  readonly months: ReadonlySet<number>;
  /** null: the field is `*`. A day is included by either of the two fields of days if both are given. */
  readonly daysOfMonth: ReadonlySet<number> | null;
  /** From 0, which is Sunday. */
  readonly daysOfWeek: ReadonlySet<number> | null;
}

const NAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};
const FIELDS = ['minute', 'hour', 'dayOfMonth', 'month', 'dayOfWeek'] as const;
const TITLES = {
  minute: 'minute',
  hour: 'hour',
  dayOfMonth: 'day of month',
  month: 'month',
  dayOfWeek: 'day of week',
};
const VALUE = '(?:\\d{1,2}|[a-z]{3})';
const ITEM = new RegExp(`^(?:\\*|${VALUE}(?:-${VALUE})?)(?:/\\d{1,2})?$`, 'i');
const MAX_LENGTH = 1_000;

/**
 * Reads five fields (minute, hour, day of the month, month, day of the week; names, lists, ranges, steps), or one name for
 * five fields. A field of days restricts the days unless it is `*` without a step. Extensions of other crons (`L`, `W`, `#`,
 * `?`, `H`, a field of seconds, `@reboot`) are refused.
 * @throws Error that says what is wrong, also for an expression that never fires, such as on 30 February.
 */
export function readCronFields(expression: string): CronFields {
  const trimmed = expression.trim();
  const [minute = '', hour = '', dayOfMonth = '', month = '', dayOfWeek, ...rest] = (
    NAMES[trimmed] ?? trimmed
  ).split(/\s+/);
  if (dayOfWeek === undefined || rest.length > 0 || trimmed.length > MAX_LENGTH) {
    throw new Error(
      `must be five fields of numbers, names, lists, ranges and steps (*/15 8-18 * * mon-fri), or one of ${Object.keys(NAMES).join(', ')}`,
    );
  }
  const fields: CronFields = {
    minutes: readField('minute', minute),
    hours: readField('hour', hour),
    everyHour: hour === '*',
    months: new Set(readField('month', month)),
    daysOfMonth: dayOfMonth === '*' ? null : new Set(readField('dayOfMonth', dayOfMonth)),
    daysOfWeek: dayOfWeek === '*' ? null : new Set(readField('dayOfWeek', dayOfWeek).map((day) => day % 7)),
  };
  if (!everFires(fields)) throw new Error('never fires: none of its months has that day');
  return fields;
}

/** Each item of a list alone, because cron-parser refuses lists whose items overlap. */
function readField(field: (typeof FIELDS)[number], text: string): number[] {
  const found = new Set<number>();
  for (const item of text.split(',')) {
    for (const value of readItem(field, item)) if (typeof value === 'number') found.add(value);
  }
  return [...found];
}

function readItem(field: (typeof FIELDS)[number], item: string): readonly (number | string)[] {
  if (!ITEM.test(item)) throw new Error(`${TITLES[field]}: "${item}" is not a number, name, range or step`);
  try {
    const expression = FIELDS.map((each) => (each === field ? item : '*')).join(' ');
    return CronExpressionParser.parse(expression).fields[field].values;
  } catch (error) {
    throw new Error(`${TITLES[field]}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

function everFires({ months, daysOfMonth, daysOfWeek }: CronFields): boolean {
  if (daysOfMonth === null || daysOfWeek !== null) return true;
  const longest = [...months].map((month) => new Date(Date.UTC(2000, month, 0)).getUTCDate());
  return Math.min(...daysOfMonth) <= Math.max(...longest);
}

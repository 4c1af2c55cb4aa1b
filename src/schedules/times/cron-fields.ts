import { CronExpressionParser, type CronField, type CronFieldCollection } from 'cron-parser';

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

const VALUE = '(?:\\d{1,2}|[a-z]{3})';
const ITEM = `(?:\\*|${VALUE}(?:-${VALUE})?)(?:/\\d{1,2})?`;
const FIELD = `${ITEM}(?:,${ITEM})*`;
const FIVE_FIELDS = new RegExp(`^${FIELD}(?:[ \\t]+${FIELD}){4}$`, 'i');

/** Each stands for five fields. */
const NAMES = ['@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly'];

/**
 * Reads five fields (minute, hour, day of the month, month, day of the week; names, lists, ranges, steps), or one name for
 * five fields. A field of days restricts the days unless it is `*` without a step. Extensions of other crons (`L`, `W`, `#`,
 * `?`, `H`, a field of seconds, `@reboot`) are refused.
 * @throws Error that says what is wrong, also for an expression that never applies, such as on 30 February.
 */
export function readCronFields(expression: string): CronFields {
  const { minute, hour, dayOfMonth, month, dayOfWeek } = parse(expression.trim());
  return {
    minutes: numbersOf(minute),
    hours: numbersOf(hour),
    everyHour: hour.isWildcard,
    months: new Set(numbersOf(month)),
    daysOfMonth: dayOfMonth.isWildcard ? null : new Set(numbersOf(dayOfMonth)),
    daysOfWeek: dayOfWeek.isWildcard ? null : new Set(numbersOf(dayOfWeek).map((day) => day % 7)),
  };
}

function parse(expression: string): CronFieldCollection {
  if (!FIVE_FIELDS.test(expression) && !NAMES.includes(expression)) {
    throw new Error(
      `must be five fields of numbers, names, lists, ranges and steps (*/15 8-18 * * mon-fri), or one of ${NAMES.join(', ')}`,
    );
  }
  try {
    return CronExpressionParser.parse(expression === '@midnight' ? '@daily' : expression).fields;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const isUnreachable = message.startsWith('Invalid explicit day of month');
    throw new Error(isUnreachable ? 'never fires: none of its months has that day' : message, {
      cause: error,
    });
  }
}

/** `L` is the only value that is not a number, and is refused. */
function numbersOf(field: CronField): number[] {
  return field.values.filter((value) => typeof value === 'number');
}

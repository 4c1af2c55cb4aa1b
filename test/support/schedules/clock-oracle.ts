import type { DrawnExpression } from './drawn-expression.js';

const MINUTE_MS = 60_000;
const MINUTES_PER_DAY = 1_440;
const DAY_MS = MINUTES_PER_DAY * MINUTE_MS;

/** What the clocks of a zone show at each minute of a period. A local minute is counted as if it were UTC. */
export interface ZoneClock {
  readonly from: number;
  readonly shown: Int32Array;
}

/** Reads the clock of a zone from Intl, every `everyMinutes`. */
export function readClock(timeZone: string, from: number, to: number, everyMinutes = 1): ZoneClock {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    hourCycle: 'h23',
  });
  const shown = new Int32Array((to - from) / MINUTE_MS / everyMinutes);
  for (const index of shown.keys()) {
    const instant = from + index * everyMinutes * MINUTE_MS;
    const text = format.format(instant); // `29, 03:30`
    const minuteOfDay = Number(text.slice(-5, -3)) * 60 + Number(text.slice(-2));
    shown[index] = localDay(instant, Number.parseInt(text, 10)) * MINUTES_PER_DAY + minuteOfDay;
  }
  return { from, shown };
}

/** The date nearest to that of UTC with this day of the month, in days since the epoch. */
function localDay(instant: number, dayOfMonth: number): number {
  const utcDay = Math.floor(instant / DAY_MS);
  const ofMonth = (day: number): number => new Date(day * DAY_MS).getUTCDate();
  const day = [utcDay, utcDay + 1, utcDay - 1].find((each) => ofMonth(each) === dayOfMonth);
  if (day === undefined)
    throw new Error(`no date near ${new Date(instant).toISOString()} is a ${dayOfMonth}.`);
  return day;
}

/** The real minutes at which the clock jumps. */
export function jumpsOf({ from, shown }: ZoneClock): number[] {
  const jumps: number[] = [];
  for (let i = 1; i < shown.length; i += 1) {
    if (shown[i] !== (shown[i - 1] ?? 0) + 1) jumps.push(from + i * MINUTE_MS);
  }
  return jumps;
}

/** When the clock shows each local minute, as indexes of `shown`. */
interface Occurrences {
  /** The least local minute; the arrays begin with it. */
  readonly least: number;
  /** -1: the clock skips this minute. */
  readonly first: Int32Array;
  readonly last: Int32Array;
}

export function findOccurrences({ shown }: ZoneClock): Occurrences {
  const least = shown.reduce((one, other) => Math.min(one, other), Infinity);
  const greatest = shown.reduce((one, other) => Math.max(one, other), -Infinity);
  const first = new Int32Array(greatest - least + 1).fill(-1);
  const last = new Int32Array(greatest - least + 1).fill(-1);
  shown.forEach((minute, index) => {
    if (first[minute - least] === -1) first[minute - least] = index;
    last[minute - least] = index;
  });
  return { least, first, last };
}

/** What a schedule does at a real minute, the greater number if several apply. */
export const NOTHING = 0;
const FIRES = 1;
const FIRES_FOR_REPEATED = 2;
const FIRES_FOR_SKIPPED = 3;

/** What a schedule does at each real minute of a clock. */
export function fire(
  expressions: readonly DrawnExpression[],
  clock: ZoneClock,
  when: Occurrences,
): Uint8Array {
  const marks = new Uint8Array(clock.shown.length);
  for (const expression of expressions) {
    const includes = minuteMatcher(expression);
    const mark = (index: number, what: number): void => {
      marks[index] = Math.max(marks[index] ?? NOTHING, what);
    };
    if (expression.everyHour) {
      clock.shown.forEach((minute, index) => {
        if (includes(minute)) mark(index, FIRES);
      });
      continue;
    }
    when.first.forEach((first, i) => {
      const minute = when.least + i;
      if (!includes(minute)) return;
      if (first === -1) mark(findReplacement(minute, clock, when), FIRES_FOR_SKIPPED);
      else mark(first, when.last[i] === first ? FIRES : FIRES_FOR_REPEATED);
    });
  }
  return marks;
}

/** The first real minute after a gap that has the same minute of the hour as a local minute in the gap. */
function findReplacement(skipped: number, { shown }: ZoneClock, { least, first }: Occurrences): number {
  let index = first.subarray(skipped - least).find((each) => each !== -1) ?? shown.length;
  while (index < shown.length && (shown[index] ?? 0) % 60 !== skipped % 60) index += 1;
  return index;
}

function minuteMatcher(expression: DrawnExpression): (minute: number) => boolean {
  const ofDay = Array.from({ length: MINUTES_PER_DAY }, (_, i) => {
    return expression.minutes.has(i % 60) && expression.hours.has(Math.floor(i / 60));
  });
  const days = new Map<number, boolean>();
  return (minute) => {
    if (ofDay[minute % MINUTES_PER_DAY] !== true) return false;
    const day = Math.floor(minute / MINUTES_PER_DAY);
    let includesDay = days.get(day);
    if (includesDay === undefined) {
      includesDay = matchesDate(expression, new Date(day * DAY_MS));
      days.set(day, includesDay);
    }
    return includesDay;
  };
}

function matchesDate({ months, daysOfMonth, daysOfWeek }: DrawnExpression, date: Date): boolean {
  if (!months.has(date.getUTCMonth() + 1)) return false;
  const byMonth = daysOfMonth?.has(date.getUTCDate());
  const byWeek = daysOfWeek?.has(date.getUTCDay());
  if (byMonth === undefined) return byWeek ?? true;
  return byMonth || byWeek === true;
}

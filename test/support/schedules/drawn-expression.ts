import type { SeededRandom } from '../history/seeded-random.js';

/** A cron expression with the values that its text means, which are known because they were drawn first. */
export interface DrawnExpression {
  readonly text: string;
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly everyHour: boolean;
  readonly months: ReadonlySet<number>;
  /** null: `*`. */
  readonly daysOfMonth: ReadonlySet<number> | null;
  readonly daysOfWeek: ReadonlySet<number> | null;
}

interface Drawn {
  readonly text: string;
  readonly values: readonly number[];
}

const MONTHS = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ');
const WEEKDAYS = 'sun mon tue wed thu fri sat'.split(' ');
const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** An expression that fires; often early in the day, when clocks change. */
export function drawExpression(random: SeededRandom): DrawnExpression {
  for (;;) {
    const minute = draw(random, { min: 0, max: 59, star: 15 });
    const hour = random.chance(60)
      ? draw(random, { min: 0, max: 4, star: 0 }, 23)
      : draw(random, { min: 0, max: 23, star: 50 });
    const dayOfMonth = draw(random, { min: 1, max: 31, star: 65 });
    const month = draw(random, { min: 1, max: 12, star: 75, names: MONTHS.map((name, i) => [i + 1, name]) });
    const dayOfWeek = draw(random, { min: 0, max: 7, star: 65, names: WEEKDAYS.map((name, i) => [i, name]) });
    const firstDay = Math.min(...dayOfMonth.values);
    const fires = dayOfWeek.text !== '*' || month.values.some((each) => firstDay <= (LONGEST[each - 1] ?? 0));
    if (!fires) continue;
    return {
      text: [minute, hour, dayOfMonth, month, dayOfWeek].map(({ text }) => text).join(' '),
      minutes: new Set(minute.values),
      hours: new Set(hour.values),
      everyHour: hour.text === '*',
      months: new Set(month.values),
      daysOfMonth: dayOfMonth.text === '*' ? null : new Set(dayOfMonth.values),
      daysOfWeek: dayOfWeek.text === '*' ? null : new Set(dayOfWeek.values.map((day) => day % 7)),
    };
  }
}

interface Field {
  readonly min: number;
  readonly max: number;
  /** The percentage of fields that are `*`. */
  readonly star: number;
  readonly names?: readonly (readonly [number, string])[];
}

/** `greatest` is where a step without an end stops. */
function draw(random: SeededRandom, field: Field, greatest = field.max): Drawn {
  if (random.chance(field.star)) return { text: '*', values: steps(field.min, greatest, 1) };
  const items = Array.from({ length: random.chance(70) ? 1 : random.int(2, 4) }, () =>
    drawItem(random, field, greatest),
  );
  return { text: items.map(({ text }) => text).join(','), values: items.flatMap(({ values }) => values) };
}

function drawItem(random: SeededRandom, field: Field, greatest: number): Drawn {
  const low = random.int(field.min, field.max);
  const high = random.int(low, field.max);
  const step = random.int(1, Math.max(2, Math.ceil((field.max - field.min) / 2)));
  const from = spell(random, field, low);
  const range = `${from}-${spell(random, field, high)}`;
  switch (random.int(0, 4)) {
    case 0:
      return { text: range, values: steps(low, high, 1) };
    case 1:
      return { text: `${range}/${step}`, values: steps(low, high, step) };
    case 2:
      return { text: `*/${step}`, values: steps(field.min, greatest, step) };
    case 3:
      return { text: `${from}/${step}`, values: steps(low, greatest, step) };
    default:
      return { text: from, values: [low] };
  }
}

function spell(random: SeededRandom, field: Field, value: number): string {
  const name = field.names?.find(([number]) => number === value)?.[1];
  return name !== undefined && random.chance(40) ? name : String(value);
}

function steps(from: number, to: number, step: number): number[] {
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => from + i * step);
}

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'vitest';
import { compileTimes } from '../../../src/schedules/times/compile-times.js';
import { Timetable } from '../../../src/schedules/times/timetable.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import {
  findOccurrences,
  fire,
  jumpsOf,
  NOTHING,
  readClock,
  type ZoneClock,
} from '../../support/schedules/clock-oracle.js';
import { drawExpression } from '../../support/schedules/drawn-expression.js';

/** TEST_SEED=n tries other expressions and, in the tier fast, other zones. */
const SEED = testSeed(20_260_329);
const SCHEDULES_PER_CLOCK = atDepth({ fast: 10, all: 8, soak: 40 });
const MINUTE_MS = 60_000;
const DAY_MS = 1_440 * MINUTE_MS;

/** By what a schedule does at a minute. */
const NOTES = [null, null, 'repeated_hour', 'skipped_hour'];

interface ZoneYears {
  readonly zone: string;
  /** The first of two years. */
  readonly year: number;
}

const REMARKABLE: readonly ZoneYears[] = [
  { zone: 'Pacific/Apia', year: 2011 }, // skips a day
  { zone: 'Africa/Casablanca', year: 2030 }, // changes before and after Ramadan
  { zone: 'Antarctica/Troll', year: 2025 }, // changes by two hours
  { zone: 'Australia/Lord_Howe', year: 2025 }, // changes by half an hour
  { zone: 'Pacific/Kiritimati', year: 1994 }, // skips the last day of a year
];

/** In the tier fast two, otherwise every one of Intl, in the tier soak in random years. */
function drawZones(random: SeededRandom): ZoneYears[] {
  const year = random.int(
    atDepth({ fast: 2025, all: 2025, soak: 1972 }),
    atDepth({ fast: 2025, all: 2025, soak: 2097 }),
  );
  const ofIntl = Intl.supportedValuesOf('timeZone').map((zone) => ({ zone, year }));
  const all = [...REMARKABLE, ...ofIntl];
  const count = atDepth({ fast: 2, all: all.length, soak: all.length });
  if (count === all.length) return all;
  return [random.pick(REMARKABLE), random.pick(ofIntl)].filter((each) => each !== undefined);
}

/** Zones whose clocks show the same in these years, by readings of each half hour. */
function groupByClock(zones: readonly ZoneYears[]): ZoneYears[][] {
  const groups = new Map<string, ZoneYears[]>();
  for (const { zone, year } of zones) {
    const { shown } = readClock(zone, Date.UTC(year, 0), Date.UTC(year + 2, 0), 30);
    const key = `${year} ${createHash('sha256').update(shown).digest('hex')}`;
    const group = groups.get(key) ?? [];
    group.push({ zone, year });
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Compares all that a timetable tells about the times of a clock, without the first and last days of its period. */
function compare(timetable: Timetable, clock: ZoneClock, marks: Uint8Array, random: SeededRandom): void {
  const start = clock.from + 3 * DAY_MS;
  const end = clock.from + clock.shown.length * MINUTE_MS - 3 * DAY_MS;
  const times: number[] = [];
  for (let time = start + MINUTE_MS; time <= end; time += MINUTE_MS) {
    if (marks[(time - clock.from) / MINUTE_MS] !== NOTHING) times.push(time);
  }
  const dates = (from: number, to: number): Date[] =>
    times.slice(Math.max(0, from), to).map((time) => new Date(time));
  assert.equal(timetable.count(new Date(start), new Date(end)), times.length, 'count of all');

  const around = [...jumpsOf(clock), ...Array.from({ length: 5 }, () => random.int(start, end))];
  const instants = around.flatMap((instant) => [
    instant - 1,
    instant,
    instant + random.int(-60, 60) * MINUTE_MS,
    instant + random.int(-36 * 60, 36 * 60) * MINUTE_MS + random.int(0, 59_999),
  ]);
  for (const instant of instants.filter((each) => each > start && each <= end)) {
    const at = new Date(instant);
    const where = at.toISOString();
    const passed = countUntil(times, instant);
    const passedBefore = countUntil(times, instant - 1);
    const other = random.int(start, end);
    const [low, high] = instant < other ? [instant, other] : [other, instant];
    const between = Math.abs(countUntil(times, other) - passed);
    assert.equal(timetable.count(new Date(low), new Date(high)), between, `count from ${low} to ${high}`);
    assert.deepEqual(
      timetable.range(at, new Date(end), 70),
      dates(passed, passed + 70),
      `range after ${where}`,
    );
    assert.deepEqual(
      timetable.latest(new Date(start), at, 70),
      dates(passed - 70, passed),
      `latest until ${where}`,
    );
    if (passed < times.length) {
      assert.deepEqual(timetable.next(at), dates(passed, passed + 1)[0], `next after ${where}`);
    }
    if (passedBefore > 0) {
      assert.deepEqual(
        timetable.previous(at),
        dates(passedBefore - 1, passedBefore)[0],
        `previous before ${where}`,
      );
    }
    const near = dates(passed - 20, passed + 20);
    const notes = near.map((time) => NOTES[marks[(time.getTime() - clock.from) / MINUTE_MS] ?? NOTHING]);
    assert.deepEqual(
      near.map((time) => timetable.noteOf(time)),
      notes,
      `notes around ${where}`,
    );
  }
}

/** How many of the times are not after an instant. */
function countUntil(times: readonly number[], instant: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? Infinity) <= instant) low = middle + 1;
    else high = middle;
  }
  return low;
}

describe('The times of schedules', () => {
  test('are those that the clocks of each zone show, minute by minute over two years, for random expressions', () => {
    const random = new SeededRandom(SEED);
    for (const group of groupByClock(drawZones(random))) {
      const [{ zone, year } = assert.fail('a group has a zone')] = group;
      const clock = readClock(zone, Date.UTC(year, 0), Date.UTC(year + 2, 0));
      const occurrences = findOccurrences(clock);
      for (let i = 0; i < Math.max(SCHEDULES_PER_CLOCK, group.length); i += 1) {
        const timezone = group[i % group.length]?.zone ?? zone;
        const expressions = Array.from({ length: random.chance(60) ? 1 : random.int(2, 3) }, () =>
          drawExpression(random),
        );
        const cron = expressions.map(({ text }) => text);
        const timetable = compileTimes({ cron, timezone });
        assert(timetable instanceof Timetable, JSON.stringify([cron, timetable]));
        try {
          compare(timetable, clock, fire(expressions, clock, occurrences), random);
        } catch (error) {
          throw new Error(`TEST_SEED=${SEED}: ${JSON.stringify(cron)} in ${timezone} from ${year}`, {
            cause: error,
          });
        }
      }
    }
  });
});

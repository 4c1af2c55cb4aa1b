import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { compileTimes, type TimesSpec } from './compile-times.js';
import { formatNominal, localDate } from './nominal-time.js';
import { Timetable } from './timetable.js';

function compile(spec: TimesSpec): Timetable {
  const compiled = compileTimes(spec);
  assert(compiled instanceof Timetable, JSON.stringify(compiled));
  return compiled;
}

function problemsOf(spec: TimesSpec): readonly string[] {
  const compiled = compileTimes(spec);
  return compiled instanceof Timetable ? [] : compiled.problems;
}

/** The times from a time on, in the zone, with their notes. */
function timesOf(cron: string | readonly string[], timezone: string, after: string, count: number): string[] {
  const timetable = compile({ cron: [cron].flat(), timezone });
  const times = timetable.range(new Date(after), new Date('2200-01-01'), count);
  return times.map((time) => {
    const note = timetable.noteOf(time);
    return formatNominal(time, timezone) + (note === null ? '' : ` ${note}`);
  });
}

/** The dates of times in UTC. */
function datesOf(cron: string, after: string, count: number): string[] {
  return timesOf(cron, 'UTC', after, count).map((time) => time.slice(0, 10));
}

describe('A fixed local time', () => {
  it('that a change skips fires once, at the first minute after the gap with its minute of the hour', () => {
    assert.deepEqual(timesOf('30 2 * * *', 'Europe/Berlin', '2026-03-28T00:00Z', 3), [
      '2026-03-28T02:30:00+01:00',
      '2026-03-29T03:30:00+02:00 skipped_hour',
      '2026-03-30T02:30:00+02:00',
    ]);
    assert.deepEqual(timesOf('0 2 8 3 *', 'America/New_York', '2026-01-01', 1), [
      '2026-03-08T03:00:00-04:00 skipped_hour',
    ]);
    assert.deepEqual(timesOf('15 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00Z', 2), [
      '2026-10-04T03:15:00+11:00 skipped_hour',
      '2026-10-05T02:15:00+11:00',
    ]);
    // A gap of a quarter of an hour, at midnight of a new year.
    assert.deepEqual(timesOf('5 0 * * *', 'Asia/Kathmandu', '1985-12-31T00:00Z', 2), [
      '1986-01-01T01:05:00+05:45 skipped_hour',
      '1986-01-02T00:05:00+05:45',
    ]);
    // A gap of two hours, from 01:00 to 03:00.
    assert.deepEqual(timesOf('10 1,2 * * *', 'Antarctica/Troll', '2026-03-28T12:00Z', 2), [
      '2026-03-29T03:10:00+02:00 skipped_hour',
      '2026-03-30T01:10:00+02:00',
    ]);
  });

  it('that a change skips is one time with a time of the schedule to which it moves', () => {
    const expected = ['2026-03-29T03:30:00+02:00 skipped_hour', '2026-03-30T02:30:00+02:00'];
    assert.deepEqual(timesOf('30 2,3 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2), expected);
    assert.deepEqual(timesOf(['30 2 * * *', '30 * 29 3 *'], 'Europe/Berlin', '2026-03-29T01:00Z', 1), [
      expected[0],
    ]);
    const timetable = compile({ cron: ['30 2,3 * * *'], timezone: 'Europe/Berlin' });
    assert.equal(timetable.count(new Date('2026-03-28T12:00Z'), new Date('2026-03-29T12:00Z')), 1);
  });

  it('of a day that a zone skips fires in the first hour of the next day, each minute once', () => {
    assert.deepEqual(timesOf('0,30 3,4 * * *', 'Pacific/Apia', '2011-12-29T15:00Z', 4), [
      '2011-12-31T00:00:00+14:00 skipped_hour',
      '2011-12-31T00:30:00+14:00 skipped_hour',
      '2011-12-31T03:00:00+14:00',
      '2011-12-31T03:30:00+14:00',
    ]);
    // The skipped day is the last of a year.
    assert.deepEqual(timesOf('0 3 * * *', 'Pacific/Kiritimati', '1994-12-30T14:00Z', 2), [
      '1995-01-01T00:00:00+14:00 skipped_hour',
      '1995-01-01T03:00:00+14:00',
    ]);
  });

  it('that a change repeats fires once, at the first of the two, also if the start lies between them', () => {
    assert.deepEqual(timesOf('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 2), [
      '2026-10-25T02:30:00+02:00 repeated_hour',
      '2026-10-26T02:30:00+01:00',
    ]);
    assert.deepEqual(timesOf('30 2 * * *', 'Europe/Berlin', '2026-10-25T00:30Z', 1), [
      '2026-10-26T02:30:00+01:00',
    ]);
    assert.deepEqual(timesOf('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T14:44Z', 2), [
      '2026-04-05T01:45:00+11:00 repeated_hour',
      '2026-04-06T01:45:00+10:30',
    ]);
    // Morocco changes before and after Ramadan.
    assert.deepEqual(timesOf('30 2 * * *', 'Africa/Casablanca', '2026-02-14T12:00Z', 2), [
      '2026-02-15T02:30:00+01:00 repeated_hour',
      '2026-02-16T02:30:00+00:00',
    ]);
    assert.deepEqual(timesOf('30 2 * * *', 'Africa/Casablanca', '2026-03-21T12:00Z', 1), [
      '2026-03-22T03:30:00+01:00 skipped_hour',
    ]);
  });

  it('is given by lists, ranges and steps of hours, also by those that contain each hour', () => {
    for (const hours of ['0-23', '*/1', '0-11,12-23']) {
      assert.deepEqual(timesOf(`30 ${hours} * * *`, 'Europe/Berlin', '2026-10-25T00:00Z', 2), [
        '2026-10-25T02:30:00+02:00 repeated_hour',
        '2026-10-25T03:30:00+01:00',
      ]);
    }
  });
});

describe('An hour field *', () => {
  it('follows real time where the clock changes', () => {
    assert.deepEqual(timesOf('30 * * * *', 'Europe/Berlin', '2026-03-29T00:00Z', 3), [
      '2026-03-29T01:30:00+01:00',
      '2026-03-29T03:30:00+02:00',
      '2026-03-29T04:30:00+02:00',
    ]);
    assert.deepEqual(timesOf('@hourly', 'Europe/Berlin', '2026-10-24T23:00Z', 3), [
      '2026-10-25T02:00:00+02:00',
      '2026-10-25T02:00:00+01:00',
      '2026-10-25T03:00:00+01:00',
    ]);
  });

  it('follows the minutes that clocks show where they change by half an hour', () => {
    assert.deepEqual(timesOf('*/20 * * * *', 'Australia/Lord_Howe', '2026-10-03T15:00Z', 3), [
      '2026-10-04T01:40:00+10:30',
      '2026-10-04T02:40:00+11:00',
      '2026-10-04T03:00:00+11:00',
    ]);
    assert.deepEqual(timesOf('45 * * * *', 'Australia/Lord_Howe', '2026-04-04T14:00Z', 3), [
      '2026-04-05T01:45:00+11:00',
      '2026-04-05T01:45:00+10:30',
      '2026-04-05T02:45:00+10:30',
    ]);
  });
});

describe('Cron expressions', () => {
  it('fire on days that match either field of days if both are given', () => {
    assert.deepEqual(datesOf('0 0 13 * fri', '2026-01-30', 4), [
      '2026-02-06',
      '2026-02-13',
      '2026-02-20',
      '2026-02-27',
    ]);
    assert.deepEqual(datesOf('0 0 30 2 1', '2026-01-30', 2), ['2026-02-02', '2026-02-09']);
    assert.deepEqual(datesOf('0 0 */10 2 7', '2026-01-30', 4), [
      '2026-02-01',
      '2026-02-08',
      '2026-02-11',
      '2026-02-15',
    ]);
  });

  it('take names, ranges, steps, and lists whose items overlap', () => {
    assert.deepEqual(timesOf('5-9/2,7 8 * JAN-mar sat,SUN,7', 'UTC', '2026-03-29T08:05Z', 3), [
      '2026-03-29T08:07:00+00:00',
      '2026-03-29T08:09:00+00:00',
      '2027-01-02T08:05:00+00:00',
    ]);
    assert.deepEqual(timesOf('50/4 22/1 1 1 *', 'UTC', '2026-12-01', 4).at(-1), '2027-01-01T23:50:00+00:00');
  });
});

describe('A timetable', () => {
  it('has the last of its times before one, and the first and the last of a period, whose start does not count', () => {
    const timetable = compile({ cron: ['0 3 * * *', '0 3,15 * * sun'], timezone: 'Europe/Berlin' });
    const [after, until] = [new Date('2026-03-28T02:00Z'), new Date('2026-03-30T01:00Z')];
    const times = ['2026-03-29T01:00Z', '2026-03-29T13:00Z', '2026-03-30T01:00Z'].map(
      (time) => new Date(time),
    );
    assert.deepEqual(timetable.range(after, until, 10), times);
    assert.deepEqual(timetable.range(after, until, 2), times.slice(0, 2));
    assert.deepEqual(timetable.latest(after, until, 2), times.slice(1));
    assert.equal(timetable.count(after, until), 3);
    assert.equal(timetable.count(until, after), 0);
    assert.deepEqual(timetable.previous(until), times[1]);
    assert.deepEqual(timetable.previous(new Date('2026-03-29T01:00:00.001Z')), times[0]);
  });

  it('has the right times in each century that schedules can reach, and ends at the year 10000', () => {
    assert.deepEqual(datesOf('0 0 29 2 *', '2090-01-01', 3), ['2092-02-29', '2096-02-29', '2104-02-29']);
    const timetable = compile({ cron: ['0 12 29 2 *'], timezone: 'America/New_York' });
    assert.deepEqual(timetable.previous(new Date('1974-01-01')), new Date('1972-02-29T17:00Z'));
    assert.deepEqual(timetable.previous(new Date('1905-01-01')), new Date('1904-02-29T17:00Z'));
    assert.equal(timetable.previous(new Date('1904-01-01')), null);
    assert.equal(timetable.next(new Date('9999-01-01')), null);
    const interval = compile({ every_s: 60 });
    assert.equal(interval.next(new Date('9999-12-31')), null);
    assert.equal(interval.previous(new Date('1900-01-01')), null);
  });

  it('of every_s is aligned to the epoch plus the offset', () => {
    const timetable = compile({ every_s: 3_600, offset_s: 600 });
    const at = new Date('2026-03-29T01:10Z');
    assert.deepEqual(timetable.next(new Date('2026-03-29T01:09:59.999Z')), at);
    assert.deepEqual(timetable.next(at), new Date('2026-03-29T02:10Z'));
    assert.deepEqual(timetable.previous(at), new Date('2026-03-29T00:10Z'));
    assert.deepEqual(timetable.previous(new Date('2026-03-29T01:10:00.001Z')), at);
    assert.equal(timetable.count(at, new Date('2026-03-30T01:10Z')), 24);
    assert.equal(timetable.count(new Date('2026-03-30T01:10Z'), at), 0);
    assert.deepEqual(timetable.range(new Date('1970-01-01'), new Date('1970-01-02'), 1), [
      new Date('1970-01-01T00:10Z'),
    ]);
    assert.equal(timetable.noteOf(at), null);
  });
});

describe('The times of a schedule are refused', () => {
  const NOT_FIVE_FIELDS = /^cron\.0: must be five fields/;

  it.each([
    [{}, ['cron, every_s: exactly one of the two is required']],
    [{ cron: ['@daily'], every_s: 60 }, ['cron, every_s: exactly one of the two is required']],
    [{ cron: [] }, ['cron: must have 1 to 10 expressions']],
    [{ cron: Array.from({ length: 11 }, () => '@daily') }, ['cron: must have 1 to 10 expressions']],
    [{ cron: ['@daily'], offset_s: 5 }, ['offset_s: is for every_s']],
    [{ cron: ['@daily'], timezone: '+02:00' }, ['timezone: +02:00: not a time zone of the IANA database']],
    [
      { cron: ['@daily'], timezone: 'Europe/Atlantis' },
      ['timezone: Europe/Atlantis: not a time zone of the IANA database'],
    ],
    [{ every_s: 9 }, ['every_s: must be an integer of at least 10']],
    [{ every_s: 10.5 }, ['every_s: must be an integer of at least 10']],
    [{ every_s: 60, offset_s: 60 }, ['offset_s: must be an integer from 0 to less than every_s']],
    [{ every_s: 60, timezone: 'UTC' }, ['timezone: not with every_s']],
  ])('with the name of the field that is wrong: %j', (spec, expected) => {
    assert.deepEqual(problemsOf(spec), expected);
  });

  it.each(['@reboot', '@secondly', '* * * * * *', '* * * *', '', `${'0,'.repeat(500)}0 * * * *`])(
    'for an expression that does not have five fields: "%s"',
    (expression) => {
      const problems = problemsOf({ cron: [expression] });
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? '', NOT_FIVE_FIELDS);
    },
  );

  it.each([
    ['60 * * * *', 'minute'],
    ['*/0 * * * *', 'minute'],
    ['H * * * *', 'minute'],
    ['* 5-3 * * *', 'hour'],
    ['* 1,,2 * * *', 'hour'],
    ['* * 0 * *', 'day of month'],
    ['* * L * *', 'day of month'],
    ['* * ? * *', 'day of month'],
    ['* * 15W * *', 'day of month'],
    ['* * * janfeb *', 'month'],
    ['* * * * 8', 'day of week'],
    ['* * * * 5L', 'day of week'],
    ['* * * * fri#2', 'day of week'],
  ])('for a field that cannot be read: "%s"', (expression, field) => {
    const problems = problemsOf({ cron: ['@daily', expression] });
    assert.equal(problems.length, 1);
    assert(problems[0]?.startsWith(`cron.1: ${field}: `), problems[0]);
  });

  it.each(['0 0 30 2 *', '0 0 31 2,4,6,9,11 *', '0 0 30-31 feb *'])(
    'if they never come: "%s"',
    (expression) => {
      assert.deepEqual(problemsOf({ cron: [expression] }), [
        'cron.0: never fires: none of its months has that day',
      ]);
    },
  );
});

describe('A time of a schedule as text', () => {
  it('is the local time to the second with the offset of the zone, and its date the local one', () => {
    const at = new Date('2026-03-29T22:30:00.900Z');
    assert.equal(formatNominal(at, 'UTC'), '2026-03-29T22:30:00+00:00');
    assert.equal(formatNominal(at, 'Europe/Berlin'), '2026-03-30T00:30:00+02:00');
    assert.equal(formatNominal(at, 'Asia/Kathmandu'), '2026-03-30T04:15:00+05:45');
    assert.equal(formatNominal(at, 'America/St_Johns'), '2026-03-29T20:00:00-02:30');
    assert.equal(localDate(at, 'UTC'), '2026-03-29');
    assert.equal(localDate(at, 'Europe/Berlin'), '2026-03-30');
  });

  it('rounds an offset that has seconds to the minute and names the same moment', () => {
    const at = compile({ cron: ['0 3 * * *'], timezone: 'Africa/Monrovia' }).next(new Date('1971-06-01'));
    assert.deepEqual(at, new Date('1971-06-01T03:44:30Z'));
    assert.equal(formatNominal(at, 'Africa/Monrovia'), '1971-06-01T03:00:30-00:44');
  });
});

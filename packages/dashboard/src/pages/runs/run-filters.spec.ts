import assert from 'node:assert/strict';
import { test } from 'vitest';
import { filtersOf, NEWEST_PAGE, NO_FILTERS, TIME_FILTERS, toQuery } from './run-filters.js';

test('times of the address that are impossible or have no zone filter nothing', () => {
  for (const time of ['2027-02-30T09:00:00Z', '20270601', '2027-06-01', '2027-06-01 junk']) {
    const times = Object.fromEntries(TIME_FILTERS.map((name) => [name, time]));
    assert.deepEqual(toQuery(filtersOf({ ...NO_FILTERS, ...NEWEST_PAGE, ...times })), {}, time);
  }
});

test('times of the address with a zone filter by whole seconds, which the list includes', () => {
  const times = { from: '2027-06-01T02:00:00+02:00', to: '2027-06-01T00:00:01.5Z' };
  assert.deepEqual(toQuery(filtersOf({ ...NO_FILTERS, ...NEWEST_PAGE, ...times })), {
    'created[gte]': 1_811_808_000,
    'created[lt]': 1_811_808_002,
  });
  const ends = { ended_from: times.from, ended_to: times.to };
  assert.deepEqual(toQuery(filtersOf({ ...NO_FILTERS, ...NEWEST_PAGE, ...ends })), {
    'ended[gte]': 1_811_808_000,
    'ended[lt]': 1_811_808_002,
  });
});

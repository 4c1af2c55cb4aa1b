import assert from 'node:assert/strict';
import { test } from 'vitest';
import { filtersOf, NEWEST_PAGE, NO_FILTERS, toQuery } from './run-filters.js';

test('times of the address that are impossible or have no zone filter nothing', () => {
  for (const from of ['2027-02-30T09:00:00Z', '20270601', '2027-06-01', '2027-06-01 junk']) {
    assert.deepEqual(toQuery(filtersOf({ ...NO_FILTERS, ...NEWEST_PAGE, from })), {}, from);
  }
});

test('times of the address with a zone filter by whole seconds, which the list includes', () => {
  const times = { from: '2027-06-01T02:00:00+02:00', to: '2027-06-01T00:00:01.5Z' };
  assert.deepEqual(toQuery(filtersOf({ ...NO_FILTERS, ...NEWEST_PAGE, ...times })), {
    'created[gte]': 1_811_808_000,
    'created[lt]': 1_811_808_002,
  });
});

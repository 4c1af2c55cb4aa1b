import assert from 'node:assert/strict';
import { test } from 'vitest';
import { readTime } from './read-time.js';

const NOW = Date.parse('2030-01-01T00:00:00Z');

for (const [text, direction, expected] of [
  ['90s', 1, '2030-01-01T00:01:30.000Z'],
  ['10m', 1, '2030-01-01T00:10:00.000Z'],
  ['2h', -1, '2029-12-31T22:00:00.000Z'],
  ['3d', -1, '2029-12-29T00:00:00.000Z'],
  ['0s', 1, '2030-01-01T00:00:00.000Z'],
  ['2027-06-01T00:00:00+02:00', -1, '2027-05-31T22:00:00.000Z'],
] as const) {
  test(`${text} is ${expected}, ${direction === 1 ? 'ahead' : 'back'} from 2030-01-01`, () => {
    assert.equal(readTime(text, NOW, direction)?.toISOString(), expected);
  });
}

for (const text of [
  '',
  '10',
  '10M',
  '1.5h',
  '-1h',
  '+1h',
  '1h30m',
  'h',
  '9999999999s',
  '999999999d',
  '20270601',
  '2027-02-30T09:00:00Z',
  '2027-06-01 junk',
  '2027-06-01',
  '2027-06-01T00:00',
]) {
  test(`${JSON.stringify(text)} is neither a time nor a span`, () => {
    assert.equal(readTime(text, NOW), null);
  });
}

import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { types } from 'pg';
import { parseTimestamp } from './timestamps.js';

const parse: (text: string) => unknown = types.getTypeParser(types.builtins.TIMESTAMPTZ);

describe('times of the database', () => {
  it('are read to the millisecond', () => {
    assert.deepEqual(parseTimestamp('2026-11-23 06:46:24.125+00'), new Date('2026-11-23T06:46:24.125Z'));
    assert.deepEqual(parseTimestamp('2026-11-23 06:46:24.5+00'), new Date('2026-11-23T06:46:24.500Z'));
    assert.deepEqual(parseTimestamp('2026-11-23 06:46:24.05+00'), new Date('2026-11-23T06:46:24.050Z'));
    assert.deepEqual(parseTimestamp('2026-11-23 06:46:24+00'), new Date('2026-11-23T06:46:24Z'));
  });

  it('are read as the driver does in every other form', () => {
    for (const text of [
      '2026-11-23 06:46:24.123456+00',
      '2026-11-23 12:16:24.5+05:30',
      '2026-11-23 07:46:24+01',
      '10000-01-01 00:00:00+00',
      '0044-03-15 12:00:00+00 BC',
      '0044-03-15 12:00:00+00',
      'infinity',
      '-infinity',
    ]) {
      assert.deepEqual(parseTimestamp(text), parse(text), text);
    }
  });
});

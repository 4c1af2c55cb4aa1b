import assert from 'node:assert/strict';
import { test } from 'vitest';
import * as fc from 'fast-check';
import { cursorsOf, decodeCursor } from './log-page.js';

const RUN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

test('decodes a cursor to its attempt and position', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1000 }),
      fc.nat({ max: 2 ** 41 }),
      fc.nat({ max: 2 ** 51 }),
      fc.nat({ max: 2 ** 31 }),
      (attempt, line, bytes, unknownGaps) => {
        const position = { line, bytes, unknownGaps };
        assert.deepEqual(decodeCursor(RUN, cursorsOf(RUN, attempt)(position)), { attempt, position });
      },
    ),
  );
});

test('refuses a cursor of another run and a malformed one', () => {
  const cursor = cursorsOf(RUN, 1)({ line: 1, bytes: 2, unknownGaps: 0 });
  assert.equal(decodeCursor('019a2b3c-4d5e-7f60-8a9b-000000000000', cursor), null);
  for (const text of [
    '',
    'x',
    `${cursor}A`,
    cursor.slice(1),
    cursor.replace(/.$/, '!'),
    cursor.toLowerCase(),
  ]) {
    assert.equal(decodeCursor(RUN, text), null, text);
  }
});

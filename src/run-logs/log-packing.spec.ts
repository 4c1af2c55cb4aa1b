import assert from 'node:assert/strict';
import { test } from 'vitest';
import * as fc from 'fast-check';
import { packLines, unpackLines } from './log-packing.js';
import { LOG_STREAMS, type LogLine } from './log-line.js';

const line = fc.record(
  {
    t: fc.integer({ min: -1e12, max: 1e13 }),
    stream: fc.constantFrom(...LOG_STREAMS),
    text: fc.string({ unit: 'grapheme', maxLength: 50 }),
    continued: fc.boolean(),
  },
  { noNullPrototype: true },
);

test('unpacks the packed lines', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(line), async (lines: LogLine[]) => {
      assert.deepEqual(await unpackLines(await packLines(lines)), lines);
    }),
  );
});

test('similar lines compress well', async () => {
  const lines = Array.from({ length: 1000 }, (_, n) => ({
    t: 1_800_000_000_000 + n * 10,
    stream: 'stdout' as const,
    text: `2027-01-15 step ${n} of 1000: loss 0.${n}, accuracy 0.${1000 - n}`,
    continued: false,
  }));
  const text = lines.reduce((sum, { text: { length } }) => sum + length, 0);
  assert.ok((await packLines(lines)).length < text / 4);
});

import assert from 'node:assert/strict';
import { test } from 'vitest';
import { stretchesOf } from './log-hits.js';

/** The texts with brackets around what belongs to a hit. */
function marked(texts: readonly string[], wanted: string): string[] {
  return stretchesOf(texts, wanted).map((stretches) =>
    stretches.map(({ text, isHit }) => (isHit ? `[${text}]` : text)).join(''),
  );
}

test('a hit is marked in each text that has a part of it, whatever the case', () => {
  assert.deepEqual(marked(['an ERROR', ': disk full'], 'Error: d'), ['an [ERROR]', '[: d]isk full']);
  assert.deepEqual(marked(['a', 'b', '', 'cab', 'c'], 'abc'), ['[a]', '[b]', '', '[c][ab]', '[c]']);
  assert.deepEqual(marked(['aaaa'], 'aa'), ['[aa][aa]']);
});

test('without a hit nothing is marked', () => {
  assert.deepEqual(marked(['a', 'b'], ''), ['a', 'b']);
  assert.deepEqual(marked(['a', 'b'], 'c'), ['a', 'b']);
  assert.deepEqual(marked(['\u0130x'], 'x'), ['\u0130x']);
});

import assert from 'node:assert/strict';
import { test } from 'vitest';
import { readWarnings, toWarnings } from './warnings.js';

function headersOf(values: readonly string[]): Headers {
  const headers = new Headers();
  for (const value of values) headers.append('Warning', value);
  return headers;
}

test('texts pass through the header Warning, also with quotes, commas and backslashes', () => {
  const texts = ['plain', 'a "b", 299 - "c"', String.raw`\n is \ two`, ''];
  assert.deepEqual(readWarnings(headersOf(toWarnings(texts))), texts);
});

test('characters that a header cannot hold are escaped', () => {
  assert.deepEqual(toWarnings(['ä\r\n😀']), [String.raw`299 - "\\u00e4\\u000d\\u000a\\ud83d\\ude00"`]);
});

test('many texts come to a few kilobytes, with the number of those that are left out', () => {
  const values = toWarnings(Array.from({ length: 1000 }, (_, n) => `warning ${n}`));
  assert.ok(values.join(', ').length < 6_000, `${values.length} values`);
  assert.equal(values.at(-1), `299 - "${1000 - values.length + 1} more warnings are left out"`);
});

test('no header, and one of another form, have no texts', () => {
  assert.deepEqual(readWarnings(new Headers()), []);
  assert.deepEqual(readWarnings(new Headers({ Warning: '110 proxy "stale"' })), []);
});

import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { jsonText } from '@longshore/common/json/json-text';
import { isJsonObject } from '@longshore/common/json/json-value';
import { readJson } from '@longshore/common/json/read-json';
import type { LogLine } from '../runtime/runtime.js';
import { maskLines } from './mask-lines.js';
import { SecretMask } from './secret-mask.js';

test('replaces every occurrence of a value of 4 characters and more, and no shorter one', () => {
  const mask = new SecretMask(['abcd', 'xyz', 'grüße', '']);
  assert.equal(mask.text('abcd and xabcdx, abcdabcd, xyz, abc'), '*** and x***x, ******, xyz, abc');
  assert.equal(mask.text('viele grüße ✓'), 'viele *** ✓');
  assert.equal(new SecretMask([]).text('abcd'), 'abcd');
});

test('replaces the longer of two values that begin alike, and all of two that overlap', () => {
  assert.equal(new SecretMask(['abcd', 'abcdefgh']).text('abcdefgh abcdef'), '*** ***ef');
  assert.equal(new SecretMask(['abcdef', 'defghi']).text('<abcdefghi>'), '<***>');
  assert.equal(new SecretMask(['outer-inner-outer', 'inner']).text('<outer-inner-outer>'), '<***>');
});

test('replaces each line of a value, without the spaces around it, and no blank line', () => {
  const mask = new SecretMask(['-----BEGIN\r\n  c2VjcmV0\n    \nab\nend-of-it\n', ' padded ']);
  assert.equal(mask.text('c2VjcmV0, end-of-it, -----BEGIN'), '***, ***, ***');
  assert.equal(mask.text('ab     c'), 'ab     c');
  assert.equal(mask.text('it was padded'), 'it was ***');
});

test('replaces a value as it is written in a JSON string, with and without escapes of other characters', () => {
  const value = 'pa"ss\\wörd\nnext line';
  const mask = new SecretMask([value]);
  assert.equal(mask.text(JSON.stringify({ value })), '{"value":"***"}');
  assert.equal(mask.text(String.raw`"pa\"ss\\w\u00f6rd\nnext line"`), '"***"');
  assert.equal(mask.text(`<${value}>`), '<***>');
  const url = new SecretMask(['db://ada:é@h?a=1&b=2']);
  assert.equal(url.text(String.raw`db://ada:é@h?a=1\u0026b=2`), '***');
  assert.equal(url.text(String.raw`db:\/\/ada:\u00e9@h?a=1&b=2`), '***');
});

test('replaces values in strings, keys and numbers of a JSON object, and keeps the digits of other numbers', () => {
  const mask = new SecretMask(['hunter22', '12345', 'a"b\\c']);
  const text =
    '{"a":"x hunter22","hunter22":[{"n":12345,"big":1795358081062000001.50}],"t":true,"e":"a\\u0022b\\\\c"}';
  const object = readJson(Buffer.from(text));
  assert.ok(isJsonObject(object));
  assert.equal(
    jsonText(mask.json(object)),
    '{"a":"x ***","***":[{"n":"***","big":1795358081062000001.50}],"t":true,"e":"***"}',
  );
  const untouched = { a: 1, hunter: 'x' };
  assert.equal(mask.json(untouched), untouched);
  assert.throws(() => mask.json({ hunter22: 1, '12345': 2 }), /duplicate/i);
});

test('finds a value that is cut anywhere between the parts of a long line', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '😀'), minLength: 4, maxLength: 7 });
  const pieces = fc.array(
    fc.oneof(letters, fc.string({ unit: fc.constantFrom('a', 'b', '-'), maxLength: 9 })),
  );
  const property = fc.asyncProperty(
    fc.array(letters, { minLength: 1, maxLength: 3 }),
    pieces,
    async (values, parts) => {
      const mask = new SecretMask(values);
      const shown = await collect(mask, [
        ...parts.map((text, index): LogLine => ({
          stream: 'stdout',
          text,
          part: index === 0 ? 'start' : 'rest',
        })),
        { stream: 'stderr', text: values.join(' ') },
      ]);
      const ofLine = shown.filter(({ stream }) => stream === 'stdout');
      const text = ofLine.map((line) => line.text);
      for (const value of values) assert.ok(!text.join('').includes(value), `${value} in ${text.join('|')}`);
      const whole = mask.text(parts.join(''));
      if (values.length === 1) assert.equal(text.join(''), whole);
      assert.ok(ofLine.every(({ part }, index) => part === (index === 0 ? 'start' : 'rest')));
    },
  );
  return fc.assert(property, { numRuns: 500 });
});

test('passes the held end of a long line on before the next line of its stream', async () => {
  const shown = await collect(new SecretMask(['long-value']), [
    { stream: 'stdout', text: 'begin long-', part: 'start' },
    { stream: 'stderr', text: 'other' },
    { stream: 'stdout', text: 'value end', part: 'rest' },
    { stream: 'stdout', text: 'next' },
  ]);
  const stdout = shown.filter(({ stream }) => stream === 'stdout');
  assert.equal(
    stdout
      .slice(0, -1)
      .map(({ text }) => text)
      .join(''),
    'begin *** end',
  );
  assert.deepEqual(stdout.at(-1), { stream: 'stdout', text: 'next' });
  assert.equal(stdout[0]?.part, 'start');
});

async function collect(mask: SecretMask, lines: readonly LogLine[]): Promise<LogLine[]> {
  const shown: LogLine[] = [];
  async function* source(): AsyncGenerator<LogLine> {
    yield* lines;
  }
  for await (const line of maskLines(source(), mask)) shown.push(line);
  return shown;
}

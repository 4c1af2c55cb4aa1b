import assert from 'node:assert/strict';
import { test } from 'vitest';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
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

test('keeps what is between two values of a line, also after a line without values', async () => {
  const mask = new SecretMask(['hunter22', 'db://ada:é']);
  const shown = await collect(mask, [
    { stream: 'stdout', text: 'none' },
    { stream: 'stdout', text: String.raw`hunter22 or hunter22, db:\/\/ada:\u00e9!` },
  ]);
  assert.deepEqual(
    shown.map(({ text }) => text),
    ['none', '*** or ***, ***!'],
  );
});

test('finds values between many line breaks and blanks of one text', () => {
  const mask = new SecretMask(['hunter22', 'ab1\ncd2']);
  const text = numbers(200)
    .map((n) => `\r   ${n} %   ${n % 50 === 0 ? '\r  hunter22  \r  ab1 \r\n  cd2' : ''}`)
    .join('');
  assert.equal(mask.text(text), text.replaceAll('hunter22', '***').replaceAll('ab1 \r\n  cd2', '***'));
});

test('finds each of 20,000 values, and no text that only begins like them', () => {
  const values = numbers(20_000).map((n) => `${(n * 7919).toString(36).padStart(4, 'x')}-é${n % 7}`);
  const mask = new SecretMask(values);
  assert.equal(mask.text(values.join(' ')), values.map(() => '***').join(' '));
  const beginnings = values.map((value) => `${value.slice(0, -1)}.`).join(' ');
  assert.equal(mask.text(beginnings), beginnings);
});

test('replaces each line of a value, without the spaces around it, and no blank line', () => {
  const mask = new SecretMask(['-----BEGIN\r\n  c2VjcmV0\n    \nab\nend-of-it\n', ' padded ']);
  assert.equal(mask.text('c2VjcmV0, end-of-it, -----BEGIN'), '***, ***, ***');
  assert.equal(mask.text('ab     c'), 'ab     c');
  assert.equal(mask.text('it was padded'), 'it was ***');
});

test('replaces each string of a value that is JSON, also its lines and nested ones, and no key, number or short one', () => {
  const value = JSON.stringify({
    type: 'abc',
    client_id: 'ada@example.com',
    key: 'first line\nsecond line\n',
    list: [{ inner: 'hunter"22' }, 12345, true, null],
  });
  const mask = new SecretMask([value, '"quoted"', '{ no JSON: "plain"', '['.repeat(30_000)]);
  assert.equal(mask.text('type abc client_id 12345 true plain'), 'type abc client_id 12345 true plain');
  assert.equal(mask.text('ada@example.com, second line; hunter"22 quoted'), '***, ***; *** ***');
  assert.equal(mask.text(`<${value}> { no JSON: "plain"`), '<***> ***');
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

test('replaces values in strings and keys of a JSON object, and keeps numbers and literals', async () => {
  const mask = new SecretMask(['hunter22', '12345', 'a"b\\c']);
  const text =
    '{"a":"x hunter22","hunter22":[{"n":12345,"big":1795358081062000001.50}],"t":true,"e":"a\\u0022b\\\\c"}';
  const object = readJson(Buffer.from(text));
  assert.ok(isJsonObject(object));
  assert.equal(
    jsonText(await mask.json(object)),
    '{"a":"x ***","***":[{"n":12345,"big":1795358081062000001.50}],"t":true,"e":"***"}',
  );
  const untouched = { a: 1, hunter: 'x' };
  assert.equal(await mask.json(untouched), untouched);
  assert.deepEqual({ ...(await mask.json({ hunter22: 1, '12345': 2 })) }, { '***': 2, '***-2': 1 });
});

test('finds values in JSON strings that have escapes again or line breaks', async () => {
  const mask = new SecretMask(['a"b\\c', 'ab1\ncd2']);
  const texts = ['a"b\\c', JSON.stringify('a"b\\c'), 'ab1\r\n  cd2', "it's", 'a"b\t'];
  const { texts: shown } = await mask.json({ texts });
  assert.deepEqual(shown, ['***', '"***"', '***', "it's", 'a"b\t']);
});

test('names the values that a text has, whole, by a line, with escapes, and within another value', () => {
  const mask = new SecretMask(
    ['hunter22', ' first line\n\n second line', 'a"b\\c', 'unter', 'absent', 'hunter22'],
    ['SHORT', 'LINES', 'QUOTED', 'INNER', 'ABSENT', 'AGAIN'],
  );
  assert.deepEqual(mask.namesIn('x hunter22'), ['SHORT', 'INNER', 'AGAIN']);
  assert.deepEqual(mask.namesIn('> first line'), ['LINES']);
  assert.deepEqual(mask.namesIn('first line \r\n second line'), ['LINES']);
  assert.deepEqual(mask.namesIn('a\\"b\\\\c'), ['QUOTED']);
  assert.deepEqual(mask.namesIn('hunt 22'), []);
  assert.deepEqual(new SecretMask(['hunter22']).namesIn('hunter22'), []);
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
        { stream: 'stdout', text: '', part: 'end' },
        { stream: 'stderr', text: values.join(' ') },
      ]);
      const ofLine = shown.filter(({ stream }) => stream === 'stdout');
      const text = ofLine.map((line) => line.text);
      for (const value of values) assert.ok(!text.join('').includes(value), `${value} in ${text.join('|')}`);
      const whole = mask.text(parts.join(''));
      if (values.length === 1) assert.equal(text.join(''), whole);
      const expected = ofLine.map((_, index) => (index === 0 ? 'start' : 'rest'));
      assert.deepEqual(
        ofLine.map(({ part }) => part),
        ofLine.length === 1 ? [undefined] : [...expected.slice(0, -1), 'end'],
      );
    },
  );
  return fc.assert(property, { numRuns: 500 });
});

test('masks short lines of a value that are printed one after the other, and no short line alone', async () => {
  const mask = new SecretMask(['ab1\ncd2\n  ef3\n', 'top-secret\n}']);
  const masked = async (...texts: string[]): Promise<string[]> => {
    const shown = await collect(
      mask,
      texts.map((text): LogLine => ({ stream: 'stdout', text })),
    );
    return shown.map(({ text }) => text);
  };
  assert.deepEqual(await masked('ab1', 'cd2', 'ef3'), ['***', '***', '***']);
  assert.deepEqual(await masked('is ab1', '  cd2  ', '', 'ef3!'), ['is ***', '***', '***', '***!']);
  assert.deepEqual(await masked('cd2', 'ef3', 'x'), ['***', '***', 'x']);
  assert.deepEqual(await masked('cd2', 'ab1', 'ef3'), ['cd2', 'ab1', 'ef3']);
  assert.deepEqual(await masked('ab1', 'cd', 'ab1'), ['ab1', 'cd', 'ab1']);
  assert.deepEqual(await masked('top-secret', '}', '}'), ['***', '***', '}']);
  assert.equal(mask.text('<ab1\r\n\tcd2>'), '<***>');
  assert.equal(mask.text(String.raw`{"a":"ab1\n  cd2\nef3\n"}`), String.raw`{"a":"***\n"}`);
});

test('masks a value of several lines, and a line in parts, that lines of the other stream interrupt', async () => {
  const shown = await collect(new SecretMask(['ab1\ncd2', 'long-value']), [
    { stream: 'stdout', text: 'ab1' },
    { stream: 'stderr', text: 'a warning' },
    { stream: 'stdout', text: 'cd2' },
    { stream: 'stdout', text: 'a long-', part: 'start' },
    { stream: 'stderr', text: 'cd2' },
    { stream: 'stdout', text: 'value', part: 'end' },
  ]);
  const textOf = (wanted: LogLine['stream']): string =>
    shown
      .filter(({ stream }) => stream === wanted)
      .map(({ text, part }) => (part === 'rest' || part === 'end' ? text : `|${text}`))
      .join('');
  assert.equal(textOf('stdout'), '|***|***|a ***');
  assert.equal(textOf('stderr'), '|a warning|cd2');
});

test('holds back no line that begins no value', async () => {
  const order: string[] = [];
  async function* source(): AsyncGenerator<LogLine> {
    for (const text of ['one', 'ab1', 'two', 'three']) {
      order.push(`printed ${text}`);
      yield { stream: 'stdout', text };
    }
  }
  for await (const { text } of maskLines(source(), new SecretMask(['ab1\ncd2']))) order.push(`shown ${text}`);
  assert.deepEqual(order, [
    'printed one',
    'shown one',
    'printed ab1',
    'printed two',
    'shown ab1',
    'shown two',
    'printed three',
    'shown three',
  ]);
});

test('masks a value as shells, JSON encoders and programming languages write it', () => {
  const mask = new SecretMask([`it's "so\tsecret" é/<&`]);
  for (const written of [
    `'it'\\''s "so\tsecret" é/<&'`,
    `'it'"'"'s "so\tsecret" é/<&'`,
    String.raw`$'it\'s "so\tsecret" é/<&'`,
    String.raw`"it\u0027s \u0022so\tsecret\u0022 \u00e9\/\u003C\u0026"`,
    String.raw`'it\'s "so\tsecret" \xe9/<&'`,
    JSON.stringify(`it's "so\tsecret" é/<&`),
  ]) {
    const shown = mask.text(written);
    assert.match(shown, /^[$'"]*\*\*\*['"]$/, written);
    assert.equal(mask.text(`echo ${written} \\`), `echo ${shown} \\`);
  }
  assert.equal(mask.text(String.raw`C:\new\'s \u00`), String.raw`C:\new\'s \u00`);
});

test('finds a value with escapes that is cut anywhere between the parts of a long line', async () => {
  const mask = new SecretMask([`it's "secret" é`]);
  for (const line of [String.raw`a "it's \"secret\" \u00e9" b`, `a 'it'\\''s "secret" é' b`]) {
    for (let cut = 1; cut < line.length; cut++) {
      const shown = await collect(mask, [
        { stream: 'stdout', text: line.slice(0, cut), part: 'start' },
        { stream: 'stdout', text: line.slice(cut), part: 'end' },
      ]);
      assert.equal(shown.map(({ text }) => text).join(''), mask.text(line), `cut at ${cut}`);
    }
  }
});

test('leaves no blanks to look for, and keeps blanks', async () => {
  const yaml = Array.from({ length: 500 }, (_, index) => `${' '.repeat(index % 90)}k${index}: v`).join('\n');
  const mask = new SecretMask([yaml, '    \n\t\t\t\t', '     ']);
  const blanks = ' '.repeat(64 * 1024);
  assert.equal(mask.text(blanks), blanks);
  assert.equal(mask.steps, 0);
  assert.equal(mask.text(`${blanks}k7: v`), `${blanks}***`);
});

const long = (text: string): string => text.repeat(Math.ceil(65_536 / text.length)).slice(0, 65_536);
const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

for (const [what, values, text] of [
  ['equal beginnings', numbers(1000).map((n) => `${'a'.repeat(200)}${n}`), long(`${'a'.repeat(201)}x`)],
  ['nested repeats', numbers(200).map((n) => `${'a'.repeat(n + 4)}b`), long(`${'a'.repeat(203)}c`)],
  ['one long repeat', [`${'ab'.repeat(16_000)}c`], long('ab'.repeat(15_999))],
  ['escapes', ['\\"'.repeat(1000)], long('\\\\\\"')],
  [
    'short lines',
    [
      numbers(5000)
        .map((n) => String.fromCharCode(97 + (n % 7)))
        .join('\n'),
    ],
    long('a\nb\nc\nd\na\n'),
  ],
] as const) {
  test(`takes a number of steps that is linear in the text with secrets of ${what}`, () => {
    const mask = new SecretMask(values);
    mask.text(text);
    assert.ok(mask.steps <= 4 * text.length, `${mask.steps} steps for ${text.length} units`);
  });
}

for (const [what, object] of [
  ['one string', { a: 'x '.repeat(4 * 2 ** 20) }],
  ['many strings', { a: Array.from({ length: 500_000 }, () => 'some text') }],
] as const) {
  test(`gives the event loop its turn while it masks 8 MB of ${what}`, async () => {
    const mask = new SecretMask(['    many\n    indented\n    lines']);
    const masked = new AbortController();
    const masking = mask.json(object).finally(() => masked.abort());
    let turns = 0;
    for (; !masked.signal.aborted; turns++) await yieldToEventLoop();
    assert.equal(await masking, object);
    assert.ok(turns > 10, `${turns} turns`);
  });
}

test('passes the held end of a long line on before the next line of its stream', async () => {
  const shown = await collect(new SecretMask(['long-value']), [
    { stream: 'stdout', text: 'begin long-', part: 'start' },
    { stream: 'stderr', text: 'other' },
    { stream: 'stdout', text: 'value end', part: 'end' },
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

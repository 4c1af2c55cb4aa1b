import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test, vi } from 'vitest';
import { composeJson, lazyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { InvalidInputs } from '../definitions.errors.js';
import { expandOptions } from './expand-options.js';

/** Inputs whose JSON text has blanks, which are not part of words. */
const INPUTS: JsonObject = Object(
  lazyJson(`{
    "text": "a b", "empty": "", "big": 12345678901234567891, "exp": 1e400, "one": 1.0, "yes": true, "no": false,
    "object": {"b": [1.0, "x y"], "a": null}, "list": ["a b", 2.50, true, null, {"k": "v"}], "none": [], "__proto__": "p"
  }`),
);

function expand(options: JsonObject, inputs = INPUTS): JsonObject | null {
  return expandOptions(options, { facts: FACTS, inputs });
}
const wordsOf = (...args: JsonObject[string][]): unknown => expand({ args })?.['args'];

const FACTS = {
  'run.id': 'run-7',
  'run.name': 'nightly',
  'schedule.time': '2026-03-29T03:30:00+02:00',
};

describe('a word of a definition', () => {
  for (const [text, word] of [
    ['${inputs.text}', 'a b'],
    ['--in=${inputs.text}/${run.id}.txt', '--in=a b/run-7.txt'],
    ['${inputs.empty}', ''],
    ['${inputs.big}', '12345678901234567891'],
    ['${inputs.exp} ${inputs.one}', '1e400 1.0'],
    ['${inputs.yes}, ${inputs.no}', 'true, false'],
    ['${inputs.object}', '{"b":[1.0,"x y"],"a":null}'],
    ['${inputs.none}', '[]'],
    ['${inputs.__proto__}', 'p'],
    ['$${inputs.text}', '${inputs.text}'],
    ['$$${inputs.text} $ {} $x', '$${inputs.text} $ {} $x'],
    ['${inputs.text}}', 'a b}'],
    ['${schedule.time}, ${run.name}', '2026-03-29T03:30:00+02:00, nightly'],
  ] as const) {
    test(`${text} is ${word}`, () => assert.deepEqual(wordsOf(text), [word]));
  }

  test('is left out when it refers to an absent input, and so is a variable', () => {
    const expanded = expand({
      command: ['a', '${inputs.constructor}'],
      args: ['x${inputs.gone}', 'b', '${inputs.text}${inputs.gone}'],
      env: { A: '${inputs.gone}', B: 'b', C: '${inputs.text}' },
    });
    assert.deepEqual(expanded, { command: ['a'], args: ['b'], env: { B: 'b', C: 'a b' } });
  });
});

describe('the folder of a mount of a definition', () => {
  const mount = { volume: 'v', path: '/v' };

  test('has inputs and the id of the run, replaced once', () => {
    const mounts = [mount, { ...mount, sub_path: '${inputs.text}/${run.id}/$${run.id}' }];
    assert.deepEqual(expand({ mounts }), { mounts: [mount, { ...mount, sub_path: 'a b/run-7/${run.id}' }] });
  });

  test('is refused without its input', () => {
    assert.throws(() => expand({ mounts: [{ ...mount, sub_path: 'a/${inputs.gone}' }] }), InvalidInputs);
  });
});

describe('a flag of a definition', () => {
  for (const [input, words, joined] of [
    ['text', ['-f', 'a b'], ['-f=a b']],
    ['empty', ['-f', ''], ['-f=']],
    ['big', ['-f', '12345678901234567891'], ['-f=12345678901234567891']],
    ['yes', ['-f'], ['-f']],
    ['no', [], []],
    ['gone', [], []],
    ['none', [], []],
    ['object', ['-f', '{"b":[1.0,"x y"],"a":null}'], ['-f={"b":[1.0,"x y"],"a":null}']],
    [
      'list',
      ['-f', 'a b', '-f', '2.50', '-f', 'true', '-f', 'null', '-f', '{"k":"v"}'],
      ['-f=a b', '-f=2.50', '-f=true', '-f=null', '-f={"k":"v"}'],
    ],
  ] as const) {
    test(`with the input ${input} is ${JSON.stringify(words)}`, () => {
      assert.deepEqual(wordsOf('a', { flag: '-f', input }, 'b'), ['a', ...words, 'b']);
      assert.deepEqual(wordsOf({ flag: '-f', input, join: '=' }), joined);
    });
  }

  test('joins with an empty text, too', () => {
    assert.deepEqual(wordsOf({ flag: '-n', input: 'one', join: '' }), ['-n1.0']);
  });
});

/** Texts with what shells, templates and parsers give a meaning to. */
const HOSTILE = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(
        ' ',
        '\n',
        '\t',
        '"',
        "'",
        '`id`',
        '$(id)',
        '$${',
        '${inputs.b}',
        '${run.id}',
        '}',
        '\\',
        '; rm -rf /',
        '-c',
        '*',
        '日本',
        '👩‍🚀',
        '\u202e',
      ),
    ),
  )
  .map((parts) => parts.join('').toWellFormed());

test('every text arrives as one word, unchanged and not expanded again', () => {
  fc.assert(
    fc.property(HOSTILE, HOSTILE, (a, b) => {
      const inputs = composeJson([
        ['a', JSON.stringify(a)],
        ['b', JSON.stringify(b)],
      ]);
      const expanded = expand(
        {
          command: ['${inputs.a}', '${inputs.b}'],
          args: ['x${inputs.a}$${${inputs.b}', { flag: '-f', input: 'b' }],
          env: { A: '${inputs.a}${inputs.a}' },
        },
        inputs,
      );
      assert.deepEqual(expanded, {
        command: [a, b],
        args: [`x${a}\${${b}`, '-f', b],
        env: { A: a + a },
      });
    }),
  );
});

test('every number arrives with all its digits', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^-?(0|[1-9]\d{0,30})(\.\d{1,30})?([eE][+-]?\d{1,4})?$/), (digits) => {
      assert.deepEqual(expand({ args: ['${inputs.n}'] }, composeJson([['n', digits]])), { args: [digits] });
    }),
  );
});

test('other options, and none at all, stay as they are', () => {
  assert.equal(expandOptions(null, { facts: {}, inputs: {} }), null);
  const options = { workdir: '/${run.id}', secrets: { A: '${inputs.text}' } };
  assert.deepEqual(expand(options), options);
});

test("the program's own references in code stay as they are", () => {
  const code = 'echo "${HOME} ${X:-${Y}}" $${inputs.text}';
  assert.deepEqual(expand({ command: ['sh', '-c', code, '${inputs.text}'] }), {
    command: ['sh', '-c', 'echo "${HOME} ${X:-${Y}}" ${inputs.text}', 'a b'],
  });
});

test('what is over every limit is not built up', () => {
  const inputs = composeJson([
    ['text', JSON.stringify('x'.repeat(1_000_000))],
    ['list', `[${'0,'.repeat(100_000)}0]`],
  ]);
  const args = [
    '${inputs.text}'.repeat(250),
    ...Array.from({ length: 99 }, () => ({ flag: '-f', input: 'list' })),
  ];
  const words: unknown = expand({ args }, inputs)?.['args'];
  assert.ok(Array.isArray(words) && words.length === 101);
  assert.ok(words.every((word) => String(word).length <= 8193));
  const mounts = [{ volume: 'v', path: '/v', sub_path: '${inputs.text}'.repeat(1000) }];
  const other = JSON.stringify(expand({ env: { A: '${inputs.text}'.repeat(1000) }, mounts }, inputs));
  assert.ok(other.length < 100_000);
});

test('an input becomes text once, however often it is referred to', () => {
  let texts = 0;
  const parse = JSON.parse;
  vi.spyOn(JSON, 'parse').mockImplementation((text: string, ...rest) => {
    if (text.startsWith('"xx')) texts += 1;
    return parse(text, ...rest);
  });
  const inputs = composeJson([['text', JSON.stringify('x'.repeat(100_000))]]);
  expand(
    { command: ['${inputs.text}'.repeat(100)], args: Array.from({ length: 99 }, () => '${inputs.text}') },
    inputs,
  );
  assert.ok(texts <= 2, `${texts} times`);
});

const runOf = (words: readonly JsonObject[string][], x: JsonObject[string]): JsonObject | null =>
  expand({ command: words.slice(0, 1), args: words.slice(1) }, { x, tool: 'python3', ls: 'ls' });

describe('an input in the place of a script', () => {
  const X = '${inputs.x}';

  for (const [words, x] of [
    [['python', X], '-c'],
    [['python', '-u', X, 'a'], '-cprint(1)'],
    [['python', `${X}.py`], '-'],
    [['node', X], '--eval=1'],
    [['bash', '-x', X], '-c'],
    [['bash', X], '+c'],
    [['perl', '-e', 'print 1', X], '-e1'],
    [['env', 'A=1', 'ruby', X], '-e1'],
    [['env', X, 'a'], '-Ssh -c id'],
    [['timeout', '5', 'python', X], '-c1'],
    [['${inputs.tool}', X], '-c1'],
    [['python', { flag: '-u', input: 'x' }], '-c1'],
  ] as const) {
    test(`is no option: ${JSON.stringify(words)} with ${x}`, () => {
      assert.throws(
        () => runOf(words, x),
        (error) => {
          assert.ok(error instanceof InvalidInputs);
          assert.match(
            String(error.errors),
            /^(args|command)\[\d\]: \$\{inputs\.x\}: would become an option of [a-z\d ]+: it must not begin with [-+]$/,
          );
          return true;
        },
      );
    });
  }

  for (const [words, x] of [
    [['python', X], 'a.py'],
    [['python', X], '+a.py'],
    [['python', X], ''],
    [['python', '--', X], '-c'],
    [['python', 'a.py', X], '-c'],
    [['python', `./${X}`], '-c'],
    [['bash', '-c', 'echo "$1"', 'sh', X], '-c'],
    [['${inputs.ls}', X], '-l'],
    [['tool', X], '-c'],
    [['bash', '-o', X], '-c'],
  ] as const) {
    test(`is any other text: ${JSON.stringify(words)} with ${x}`, () => assert.ok(runOf(words, x)));
  }
});

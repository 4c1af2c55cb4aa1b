import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'vitest';
import { stringifyJson } from '@longshore/common/json/json-text';
import { CliError, EXIT } from '../cli-error.js';
import { overlaid, readJobs, type Job } from './job-file.js';

const read = (text: string | Buffer): Promise<readonly Job[]> => readJobs('-', Readable.from([text]));
const texts = async (text: string): Promise<readonly string[]> =>
  (await read(text)).map(({ value }) => stringifyJson(value));
const refusal = async (text: string | Buffer): Promise<string> => {
  try {
    await read(text);
  } catch (error) {
    assert.ok(error instanceof CliError && error.exitCode === EXIT.usage, String(error));
    return error.message;
  }
  return 'not refused';
};

describe('a file of jobs', () => {
  test('has one job, a list of them, or several documents, in JSON and in YAML', async () => {
    assert.deepEqual(await texts('{"image": "a"}'), ['{"image":"a"}']);
    assert.deepEqual(await texts('[{"image": "a"},\n\t{"image": "b"}]'), ['{"image":"a"}', '{"image":"b"}']);
    assert.deepEqual(await texts('image: a\n---\n- image: b\n- image: c\n---\n# nothing\n'), [
      '{"image":"a"}',
      '{"image":"b"}',
      '{"image":"c"}',
    ]);
  });

  test('keeps all digits of numbers, and the values of YAML 1.2', async () => {
    const json = '{"n":12345678901234567890,"x":1e400,"y":1.50,"s":"\\ud83d\\ude00"}';
    assert.deepEqual(await texts(json), [json.replace('\\ud83d\\ude00', '\u{1F600}')]);
    const [yaml] = await texts(
      'yes: no\nv: 1.10\nh: 0x10\nnone: ~\nt: "1"\nd: 2026-01-02\n__proto__: 1\n1: a\n',
    );
    assert.equal(
      yaml,
      '{"1":"a","yes":"no","v":1.10,"h":16,"none":null,"t":"1","d":"2026-01-02","__proto__":1}'
        .replace('{"1":"a",', '{')
        .replace(/}$/, ',"1":"a"}'),
    );
  });

  test('may use aliases of YAML, within bounds', async () => {
    assert.deepEqual(await texts('- &a {image: x}\n- *a\n'), ['{"image":"x"}', '{"image":"x"}']);
    assert.match(await refusal('a: &a [*a]'), /^standard input:1: more than 200 levels$/);
    const laughs = Array.from({ length: 9 }, (_, n) => `a${n}: &a${n} [${`*a${n - 1},`.repeat(9)}]`).slice(1);
    assert.match(await refusal(`a0: &a0 [${'lol,'.repeat(9)}]\n${laughs.join('\n')}`), /come to too much$/);
  });

  test('is refused with the line of what is wrong in it', async () => {
    assert.match(await refusal('a: 1\nb: 2\na: 3\n'), /^standard input:3: Map keys must be unique/);
    assert.match(await refusal('{"a": 1,\n"b": '), /^standard input:2: /);
    assert.match(await refusal('- {a: 1}\n- text\n'), /^standard input:2: expected an object$/);
    assert.match(await refusal('a: 1\nb: .inf\n'), /^standard input:2: a value that JSON does not have$/);
    assert.match(await refusal('? [a]\n: 1\n'), /^standard input:1: a key that is no text$/);
    assert.match(await refusal('a: *b\n'), /^standard input:1: Unresolved alias/);
    assert.match(await refusal('# nothing\n'), /^standard input is empty/);
    assert.match(await refusal(Buffer.from([0x61, 0x3a, 0xff])), /^standard input is not UTF-8 text$/);
  });

  test('gives each error of the API the line of its field, or of the deepest object around it', async () => {
    const [first, second] = await read(`image: a
constraints:
  cpu: 1
  ram_mb: x
mounts:
  - volume: v
  - volume: w
    path: no
env: {
  "A B": c }
---
image: b
`);
    for (const [error, line] of [
      ['constraints.ram_mb must be an integer', 4],
      ['constraints.gpus must be an integer', 2],
      ['mounts[1].path must begin with /', 8],
      ['mounts[0].path is required', 6],
      ['env["A B"] is no name', 10],
      ['image is wrong', 1],
      ['mounts[7] is none', 5],
      ['What is none', 1],
      ['', 1],
    ] as const) {
      assert.equal(first?.placeOf(error), `standard input:${line}`, error);
    }
    assert.equal(second?.placeOf('image is wrong'), 'standard input:12');
  });
});

test('flags override members of objects one by one, and lists and texts as a whole', () => {
  const job = { image: 'a', env: { A: '1', B: '2' }, args: ['x'], inputs: {}, mounts: 'wrong', user: null };
  const flags = { env: { B: '3' }, args: ['y'], inputs: { n: 1 }, constraints: { cpu: 1 } };
  assert.equal(
    stringifyJson(overlaid(job, flags)),
    '{"image":"a","env":{"A":"1","B":"3"},"args":["y"],"inputs":{"n":1},"mounts":"wrong","user":null,"constraints":{"cpu":1}}',
  );
  const wrong = { inputs: 'wrong' };
  assert.equal(stringifyJson(overlaid(wrong, { inputs: {} })), '{"inputs":"wrong"}');
});

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { stringifyJson } from '@longshore/common/json/json-text';
import { describe, test } from 'vitest';
import { CliError, EXIT } from '../cli-error.js';
import { readAssignment, readInputs, readJsonFile } from './inputs.js';

const isUsage = (error: unknown): boolean => error instanceof CliError && error.exitCode === EXIT.usage;

describe('an input name=value', () => {
  test('is JSON where it can be, and text elsewhere', () => {
    const cases = [
      ['n=3', 3],
      ['n="3"', '3'],
      ['ok=true', true],
      ['none=null', null],
      ['list=[1,"a"]', [1, 'a']],
      ['object={"a":1}', { a: 1 }],
      ['text=hello world', 'hello world'],
      ['empty=', ''],
      ['url=http://host/?a=b', 'http://host/?a=b'],
      ['half={"a"', '{"a"'],
      ['real=1.5', 1.5],
      ['minus=-0.5', -0.5],
    ] as const;
    for (const [assignment, value] of cases) {
      assert.equal(readAssignment(assignment)[1], JSON.stringify(value), assignment);
    }
  });

  test('keeps all digits of a number', () => {
    for (const literal of ['12345678901234567890', '1e999', '1.50', '-0']) {
      assert.deepEqual(readAssignment(`n= ${literal}`), ['n', literal]);
    }
    assert.deepEqual(readAssignment('list=[1.0, 1e400]'), ['list', '[1.0, 1e400]']);
  });

  test('needs a name', () => {
    for (const text of ['', 'name', '=value']) assert.throws(() => readAssignment(text), isUsage, text);
  });
});

const from = (stdin: Readable) => ({ stdin, output: { note: () => undefined } });

describe('inputs', () => {
  test('come from standard input, with single ones on top', async () => {
    const stdin = Readable.from(['{"a": 1, "b": 2}']);
    const inputs = await readInputs({ inputs: '-', input: ['b=three', '__proto__=x'] }, from(stdin));
    assert.deepEqual(Object.entries(inputs), [
      ['a', 1],
      ['b', 'three'],
      ['__proto__', 'x'],
    ]);
  });

  test('keep the digits and the order of the file', async () => {
    const stdin = Readable.from(['{ "2": 1e400, "1": {"x": [1.0]}, "c": 1 }']);
    const inputs = await readInputs({ inputs: '-', input: ['c=3.0', 'id=1795358081062000000'] }, from(stdin));
    assert.equal(
      stringifyJson({ inputs }),
      '{"inputs":{"2":1e400,"1":{"x":[1.0]},"c":3.0,"id":1795358081062000000}}',
    );
  });

  test('must be an object in JSON that can be read', async () => {
    await assert.rejects(readInputs({ inputs: '-' }, from(Readable.from(['[1]']))), isUsage);
    await assert.rejects(readInputs({ inputs: '-' }, from(Readable.from(['{']))), isUsage);
    await assert.rejects(readJsonFile('no/such/file', Readable.from([])), isUsage);
  });
});

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { CliError, EXIT } from './cli-error.js';
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
      ['real=1.50', 1.5],
      ['minus=-0.5', -0.5],
    ] as const;
    for (const [assignment, value] of cases) {
      assert.deepEqual(readAssignment(assignment)[1], value, assignment);
    }
  });

  test('keeps digits that a number would lose, as text', () => {
    assert.deepEqual(readAssignment('id=12345678901234567890'), ['id', '12345678901234567890']);
    assert.deepEqual(readAssignment('big=1e999'), ['big', '1e999']);
  });

  test('needs a name', () => {
    for (const text of ['', 'name', '=value']) assert.throws(() => readAssignment(text), isUsage, text);
  });
});

describe('inputs', () => {
  test('come from standard input, with single ones on top', async () => {
    const stdin = Readable.from(['{"a": 1, "b": 2}']);
    const inputs = await readInputs({ inputs: '-', input: ['b=three', '__proto__=x'] }, stdin);
    assert.deepEqual(Object.entries(inputs), [
      ['a', 1],
      ['b', 'three'],
      ['__proto__', 'x'],
    ]);
  });

  test('must be an object in JSON that can be read', async () => {
    await assert.rejects(readInputs({ inputs: '-' }, Readable.from(['[1]'])), isUsage);
    await assert.rejects(readInputs({ inputs: '-' }, Readable.from(['{'])), isUsage);
    await assert.rejects(readJsonFile('no/such/file', Readable.from([])), isUsage);
  });
});

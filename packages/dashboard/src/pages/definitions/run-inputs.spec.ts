import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import {
  kindOf,
  limitsOf,
  nameOfType,
  readInput,
  readInputs,
  sortRefusal,
  toTexts,
  type InputKind,
  type InputSpec,
} from './run-inputs.js';

const spec = (type: string, required = false, byDefault: InputSpec['default'] = null): InputSpec => ({
  type,
  required,
  default: byDefault,
});

describe('the type of an input', () => {
  it('is known in upper and lower case, and a label is shown without its prefix', () => {
    assert.deepEqual(['Integer', 'STR', 'label:int', 'int'].map(kindOf), [
      'integer',
      'text',
      'label',
      'integer',
    ]);
    assert.deepEqual(['label:temperature', 'Integer'].map(nameOfType), ['temperature', 'Integer']);
  });
});

describe('the limits of an input', () => {
  it('are named in one line', () => {
    assert.equal(limitsOf(spec('string')), '');
    assert.equal(limitsOf({ ...spec('number'), minimum: 0, maximum: 1.5 }), 'at least 0, at most 1.5');
    assert.equal(
      limitsOf({ ...spec('string'), max_length: 3, enum: ['a', 'b'] }),
      'at most 3 characters, one of "a", "b"',
    );
  });
});

describe('readInput', () => {
  const good: readonly (readonly [InputKind, string, unknown])[] = [
    ['text', '', ''],
    ['text', ' 1 ', ' 1 '],
    ['integer', ' -12 ', -12],
    ['number', '1.5e3', 1500],
    ['number', '.5', 0.5],
    ['boolean', 'true', true],
    ['boolean', 'false', false],
    ['object', '{"a":[1]}', { a: [1] }],
    ['array', '[]', []],
    ['label', '"x"', 'x'],
    ['label', 'iris', 'iris'],
    ['label', '{a:1}', '{a:1}'],
    ['label', '1.50', 1.5],
    ['label', '9007199254740993', '9007199254740993'],
  ];
  for (const [kind, text, value] of good) {
    it(`takes ${JSON.stringify(text)} as ${kind}`, () => assert.deepEqual(readInput(kind, text), { value }));
  }
  const bad: readonly (readonly [InputKind, string])[] = [
    ['integer', '1.5'],
    ['integer', '1e3'],
    ['integer', '9007199254740993'],
    ['number', '0x10'],
    ['number', '1e999'],
    ['number', 'NaN'],
    ['object', '[]'],
    ['object', 'null'],
    ['array', '{}'],
  ];
  for (const [kind, text] of bad) {
    it(`refuses ${JSON.stringify(text)} as ${kind}`, () => assert.ok('problem' in readInput(kind, text)));
  }
});

describe('a list or an object that is none', () => {
  it('is refused with an example, and not with what the parser says', () => {
    for (const text of ['a, b', '{}'])
      assert.deepEqual(readInput('array', text), { problem: 'Enter a JSON array, such as ["a", "b"].' });
    for (const text of ['{a:1}', '[]'])
      assert.deepEqual(readInput('object', text), { problem: 'Enter a JSON object, such as {"a": 1}.' });
  });
});

describe('the inputs of a run', () => {
  const specs = {
    text: spec('str', true),
    n: spec('integer', true, 5),
    list: spec('list'),
    label: spec('temperature'),
  };

  it('leaves out what was not entered, and misses what is required and has no default', () => {
    assert.deepEqual(readInputs(specs, new Map([['list', '[1]']])), {
      inputs: { list: [1] },
      problems: new Map([['text', 'This input is required.']]),
    });
    assert.deepEqual(readInputs(specs, new Map([['text', '']])), {
      inputs: { text: '' },
      problems: new Map(),
    });
  });

  it('gets back what it was made from', () => {
    const inputs = { text: '1', n: 2, list: [{ a: null }], label: 'warm' };
    assert.deepEqual(readInputs(specs, toTexts(specs, inputs)).inputs, inputs);
    for (const label of ['1', 'null', '"a"', '', { a: 1 }, 5]) {
      assert.deepEqual(readInputs(specs, toTexts(specs, { text: '', label })).inputs, { text: '', label });
    }
    assert.deepEqual([...toTexts(specs, { label: 'warm' })], [['label', 'warm']]);
    assert.deepEqual([...toTexts(specs, { other: 1, n: null, toString: 1 })], []);
  });

  it('takes what it does not know as a label', () => assert.equal(kindOf('temperature'), 'label'));
});

describe('sortRefusal', () => {
  it('puts every line where it belongs', () => {
    const lines = [
      'inputs.a b must be x',
      'inputs.a must be y',
      'priority must be z',
      'outputs.u no',
      'inputs.q odd',
    ];
    assert.deepEqual(sortRefusal(lines, ['a', 'a b'], ['priority', 'outputs']), {
      inputs: new Map([
        ['a b', 'inputs.a b must be x'],
        ['a', 'inputs.a must be y'],
      ]),
      fields: new Map([
        ['priority', 'priority must be z'],
        ['outputs', 'outputs.u no'],
      ]),
      rest: ['inputs.q odd'],
    });
  });
});

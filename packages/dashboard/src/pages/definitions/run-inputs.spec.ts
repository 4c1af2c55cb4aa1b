import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Schemas } from '@longshore/client';
import {
  awaitedFile,
  fillForm,
  placeErrors,
  readField,
  readForm,
  type FormField,
} from '../../run-form/form-values.js';
import { inputFields, limitsOf } from './run-inputs.js';

type InputSpec = Schemas['InputSpec'];

const FILE = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';
const spec = (type: string, required = false, byDefault: InputSpec['default'] = null): InputSpec => ({
  type,
  required,
  default: byDefault,
});
const fieldOf = (given: InputSpec): FormField => inputFields({ x: given })[0] ?? assert.fail('no field');

describe('the field of an input', () => {
  it('knows types in upper and lower case, and shows a label without its prefix', () => {
    assert.deepEqual(
      ['Integer', 'STR', 'label:int', 'int', 'temperature'].map((type) => fieldOf(spec(type)).kind),
      ['integer', 'verbatim', 'label', 'integer', 'label'],
    );
    assert.equal(fieldOf(spec('label:heat')).hint, 'heat, JSON or else text · optional');
  });

  it('names its limits in one line', () => {
    assert.equal(limitsOf(spec('string')), '');
    assert.equal(limitsOf({ ...spec('number'), minimum: 0, maximum: 1.5 }), 'at least 0, at most 1.5');
    assert.equal(
      limitsOf({ ...spec('string'), max_length: 3, enum: ['a', 'b'] }),
      'at most 3 characters, one of "a", "b"',
    );
  });

  it.each([
    ['string', '', ''],
    ['string', ' 1 ', ' 1 '],
    ['integer', ' -12 ', -12],
    ['number', '1.5e3', 1500],
    ['number', '.5', 0.5],
    ['boolean', 'true', true],
    ['boolean', 'false', false],
    ['object', '{"a":[1]}', { a: [1] }],
    ['array', '[]', []],
    ['file', ` ${FILE} `, FILE],
    ['file', `{"$artifact":{"file":"${FILE}"}}`, { $artifact: { file: FILE } }],
    ['file', '{"$artifact":{"run":"r","name":"n"}}', { $artifact: { run: 'r', name: 'n' } }],
    ['label', '"x"', 'x'],
    ['label', 'iris', 'iris'],
    ['label', '{a:1}', '{a:1}'],
    ['label', '1.50', 1.5],
    ['label', '9007199254740993', '9007199254740993'],
  ])('of the type %s takes %j as %j', (type, text, value) => {
    assert.deepEqual(readField(fieldOf(spec(type)), text), { value });
  });

  it.each([
    ['integer', '1.5', /whole number/],
    ['integer', '1e3', /whole number/],
    ['integer', '9007199254740993', /too large/],
    ['number', '0x10', /a number/],
    ['number', '1e999', /a number/],
    ['number', 'NaN', /a number/],
    ['object', '[]', /JSON object, such as/],
    ['object', 'null', /JSON object, such as/],
    ['array', '{}', /JSON array, such as \["a", "b"\]/],
    ['file', 'train.csv', /the id of one/],
    ['file', awaitedFile('train.csv'), /wait until it is sent/],
    ['file', '{"$artifact":"n"}', /the id of one/],
    ['array', 'a, b', /JSON array, such as \["a", "b"\]/],
  ])('of the type %s refuses %j', (type, text, problem) => {
    const read = readField(fieldOf(spec(type)), text);
    assert.match('problem' in read ? read.problem : '', problem);
  });
});

describe('the inputs of a run', () => {
  const specs = {
    text: spec('str', true),
    n: spec('integer', true, 5),
    list: spec('list'),
    label: spec('temperature'),
    'a.b': spec('str'),
  };
  const fields = inputFields(specs);

  it('leave out what was not entered, and miss what is required and has no default', () => {
    assert.deepEqual(readForm(fields, { 'inputs.list': '[1]' }), {
      body: { inputs: { list: [1] } },
      errors: { 'inputs.text': 'This input is required.' },
    });
    assert.deepEqual(readForm(fields, { 'inputs.text': '' }), { body: { inputs: { text: '' } }, errors: {} });
  });

  it('are those with which the form was filled', () => {
    const inputs = { text: '1', n: 2, list: [{ a: null }], label: 'warm', 'a.b': 'dots' };
    assert.deepEqual(readForm(fields, fillForm(fields, { inputs })).body, { inputs });
    for (const label of ['1', 'null', '"a"', '', { a: 1 }, 5]) {
      const labelled = { inputs: { text: '', label } };
      assert.deepEqual(readForm(fields, fillForm(fields, labelled)).body, labelled);
    }
    const [file] = inputFields({ x: spec('file') });
    assert.ok(file);
    assert.deepEqual(fillForm([file], { inputs: { x: { $artifact: { file: FILE } } } }), {
      'inputs.x': FILE,
    });
    const ofRun = { inputs: { x: { $artifact: { run: 'r', name: 'n' } } } };
    assert.deepEqual(readForm([file], fillForm([file], ofRun)).body, ofRun);
    const filled = fillForm(fields, { inputs: { label: 'warm', n: null, other: 1, toString: 1 } });
    assert.deepEqual(
      Object.entries(filled).filter(([, text]) => text !== undefined),
      [['inputs.label', 'warm']],
    );
  });

  it('have the lines of a refusal that are about them, and no others', () => {
    const named = inputFields({ a: spec('str'), 'a b': spec('str') });
    const lines = ['inputs.a b must be x', 'inputs.a must be y', 'inputs.q odd'];
    assert.deepEqual(placeErrors(lines, named), {
      fields: { 'inputs.a b': 'inputs.a b must be x', 'inputs.a': 'inputs.a must be y' },
      rest: ['inputs.q odd'],
    });
  });
});

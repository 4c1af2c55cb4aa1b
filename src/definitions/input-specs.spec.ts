import assert from 'node:assert/strict';
import { test } from 'vitest';
import { jsonText, lazyJson } from '@longshore/common/json/json-text';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import type { InputSpec } from '../database/entities/definition.entity.js';
import { checkSpecs, completeInputs, typeProblem } from './input-specs.js';

function specs(given: Record<string, Partial<InputSpec>>): Map<string, InputSpec> {
  return new Map(
    Object.entries(given).map(([name, spec]) => [
      name,
      { type: 'string', required: false, default: null, ...spec },
    ]),
  );
}

const VALUES: Record<string, JsonValue> = {
  text: 'x',
  whole: 3,
  fraction: 1.5,
  flag: true,
  object: {},
  array: [],
};
const FITS: readonly [readonly string[], readonly string[]][] = [
  [['string', 'str', 'String', 'STR'], ['text']],
  [['integer', 'int', 'Integer'], ['whole']],
  [
    ['number', 'float'],
    ['whole', 'fraction'],
  ],
  [['boolean', 'bool'], ['flag']],
  [['object', 'dict'], ['object']],
  [['array', 'list'], ['array']],
  [['label:date', 'label:string', 'date', 'constructor', ''], Object.keys(VALUES)],
];

for (const [types, fitting] of FITS) {
  for (const type of types) {
    test(`type '${type}' accepts ${fitting.join(', ')} and nothing else`, () => {
      const taken = Object.keys(VALUES).filter(
        (name) => typeProblem(type, VALUES[name] ?? null) === undefined,
      );
      assert.deepEqual(taken.toSorted(), [...fitting].toSorted());
    });
  }
}

test('fills in defaults and omits absent optional inputs', () => {
  const declared = specs({ a: { default: 'd' }, b: {}, c: { required: true } });
  assert.deepEqual(completeInputs(declared, { c: 'x', a: null }), { inputs: { a: 'd', c: 'x' } });
});

test('a default satisfies required, null does not', () => {
  assert.deepEqual(completeInputs(specs({ a: { required: true, default: 'd' } }), {}), {
    inputs: { a: 'd' },
  });
  assert.deepEqual(completeInputs(specs({ a: { required: true } }), { a: null }), {
    problems: ['inputs.a is required'],
  });
});

test('reports every input that does not fit, one line each', () => {
  const declared = specs({ n: { type: 'integer' }, r: { required: true } });
  assert.deepEqual(completeInputs(declared, { n: 'x', extra: 1, other: null }), {
    problems: [
      'inputs.extra is not a declared input',
      'inputs.other is not a declared input',
      'inputs.n must be an integer',
      'inputs.r is required',
    ],
  });
});

test('accepts all inputs without specs', () => {
  const inputs: JsonObject = JSON.parse('{"__proto__": 1, "n": null}');
  assert.deepEqual(completeInputs(new Map(), inputs), { inputs });
});

test('accepts __proto__ and constructor as names', () => {
  const inputs: JsonObject = JSON.parse('{"__proto__": "p", "constructor": "c"}');
  const declared = new Map([
    ...specs({ constructor: { required: true } }),
    ['__proto__', { type: 'string', required: true, default: null }] as const,
  ]);
  const outcome = completeInputs(declared, inputs);
  assert.ok('inputs' in outcome);
  assert.equal(JSON.stringify(outcome.inputs), '{"__proto__":"p","constructor":"c"}');
});

test('keeps the digits of inputs and defaults, and the order of inputs', () => {
  const stored: Record<string, InputSpec> = Object(
    lazyJson(
      '{"n":{"type":"number","required":false,"default":1e400},"1":{"type":"integer","required":true,"default":null}}',
    ),
  );
  const outcome = completeInputs(
    new Map([...Object.entries(stored), ...specs({ 2: { type: 'label:any' } })]),
    Object(lazyJson('{"2":[1.0],"1":1795358081062000000}')),
  );
  assert.ok('inputs' in outcome);
  assert.equal(jsonText(outcome.inputs), '{"2":[1.0],"1":1795358081062000000,"n":1e400}');
});

test('reports a default of the wrong type', () => {
  assert.deepEqual(checkSpecs(specs({ a: { default: 5 }, b: { type: 'int', default: 5 } })), [
    'input_specs.a.default must be a string',
  ]);
});

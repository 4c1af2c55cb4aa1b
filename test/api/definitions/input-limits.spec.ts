import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const service = useTestApp();
let made = 0;

const store = (specs: object): Promise<TestAnswer> => {
  made += 1;
  const body = { id: `def-${made}`, version: '1', image: 'i', input_specs: specs };
  return service.send('POST', '/definitions', { body });
};
/** Stores a definition that is given as a text. */
const storeText = (body: string): Promise<TestAnswer> => service.send('POST', '/definitions', { body });
const runOf = (definition: string, body: object | string = {}): Promise<TestAnswer> =>
  service.send('POST', `${definition}/runs`, { body });

describe('limits of inputs', () => {
  const LIMITS = {
    mode: { type: 'string', enum: ['fast', 'slow'], description: 'How.' },
    big: { type: 'integer', minimum: 1, maximum: 100, default: 5 },
    name: { type: 'string', max_length: 3 },
    any: { type: 'label:any', enum: [{ a: 1 }, 2] },
  };

  test('are shown where they are given, exactly', async () => {
    const answer = await storeText(
      '{"id":"exact","version":"1","image":"i","input_specs":{"n":{"type":"number","minimum":1.0,"maximum":1e400,"enum":[1.50]},"o":{"type":"string","enum":null,"description":null,"minimum":null}}}',
    );
    assert.equal(answer.status, 201, answer.text);
    assert.match(
      answer.text,
      /"n":\{"type":"number","required":false,"default":null,"enum":\[1\.50\],"minimum":1\.0,"maximum":1e400\}/,
    );
    assert.match(answer.text, /"o":\{"type":"string","required":false,"default":null\}/);
    const { body } = await store(LIMITS);
    for (const [name, spec] of Object.entries(LIMITS)) {
      assert.deepEqual(body.input_specs[name], { required: false, default: null, ...spec });
    }
  });

  test('are checked when a run is created, by the exact values of numbers', async () => {
    assert.equal((await store(LIMITS)).status, 201);
    const definition = `/definitions/def-${made}`;
    for (const inputs of [
      { mode: 'fast', big: 1, name: '👩👩👩' },
      { big: 100, any: 2 },
      { any: { a: 1 } },
      {},
    ]) {
      assert.equal((await runOf(definition, { inputs })).status, 201, JSON.stringify(inputs));
    }
    const bad = { mode: 'fastest', big: 101, name: '1234', any: { a: 2 } };
    assertError(await runOf(definition, { inputs: bad }), 400, 'Invalid inputs', [
      'inputs.mode must be one of "fast", "slow"',
      'inputs.big must be at most 100',
      'inputs.name must have at most 3 characters',
      'inputs.any must be one of {"a":1}, 2',
    ]);
    const exact = await storeText(
      '{"id":"edge","version":"1","image":"i","input_specs":{"n":{"type":"integer","minimum":12345678901234567890}}}',
    );
    assert.equal(exact.status, 201, exact.text);
    assert.equal((await runOf('/definitions/edge', '{"inputs":{"n":12345678901234567890}}')).status, 201);
    assertError(
      await runOf('/definitions/edge', '{"inputs":{"n":12345678901234567889}}'),
      400,
      'Invalid inputs',
      ['inputs.n must be at least 12345678901234567890'],
    );
  });

  for (const [spec, problems] of [
    [{ type: 'string', minimum: 1 }, ['input_specs.a.minimum needs the type integer or number']],
    [{ type: 'integer', max_length: 1 }, ['input_specs.a.max_length needs the type string']],
    [
      { type: 'number', minimum: 2, maximum: 1 },
      ['input_specs.a.minimum must be at most input_specs.a.maximum'],
    ],
    [{ type: 'string', enum: ['a', 1] }, ['input_specs.a.enum[1] must be a string']],
    [{ type: 'integer', enum: [1, 5], maximum: 4 }, ['input_specs.a.enum[1] must be at most 4']],
    [{ type: 'string', enum: ['a'], default: 'b' }, ['input_specs.a.default must be one of "a"']],
    [
      { type: 'string', max_length: 1, default: 'bb' },
      ['input_specs.a.default must have at most 1 characters'],
    ],
    [{ type: 'string', enum: [] }, ['input_specs.a.enum must be a list of 1 to 100 items']],
    [{ type: 'string', enum: 'a' }, ['input_specs.a.enum must be a list of 1 to 100 items']],
    [{ type: 'number', minimum: '1' }, ['input_specs.a.minimum must be a number']],
    [
      { type: 'string', max_length: -1 },
      ['input_specs.a.max_length must be an integer from 0 to 2147483647'],
    ],
    [
      { type: 'string', description: 5 },
      [
        'input_specs.a.description must be a string without control characters but tabs and line ends of at most 4096 characters',
      ],
    ],
  ] as const) {
    test(`are refused where they contradict each other: ${JSON.stringify(spec)}`, async () => {
      assertInvalid(await store({ a: spec }), [...problems]);
    });
  }
});

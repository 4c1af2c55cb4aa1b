import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { InvalidRequest } from '../../errors/domain-error.js';
import { QueryBoolean, QueryInteger, QueryString } from './query-decorators.js';
import { DtoValidationPipe } from './validation.pipe.js';

class QueryDto {
  @QueryInteger({ min: 1, max: 100 }) limit?: number = 10;
  @QueryInteger() after?: number;
  @QueryBoolean() deep?: boolean;
  @QueryString({ max: 4 }) image?: string;
  @QueryString({ oneOf: ['A', 'B'] }) state?: string;
  @QueryInteger() 'created[gte]'?: number;
}

const pipe = new DtoValidationPipe();

async function query(value: Record<string, string>): Promise<object> {
  const result: unknown = await pipe.transform(Object.assign(Object.create(null), value), {
    type: 'query',
    metatype: QueryDto,
  });
  assert.ok(result instanceof QueryDto);
  return result;
}

async function refusal(read: Promise<unknown>): Promise<readonly string[]> {
  try {
    await read;
  } catch (error) {
    assert.ok(error instanceof InvalidRequest, String(error));
    assert.equal(error.message, 'Request validation failed');
    return error.errors ?? [];
  }
  return assert.fail('was accepted');
}

describe('validation of queries', () => {
  it('converts declared parameters', async () => {
    const result = await query({
      limit: '7',
      after: '-1',
      deep: 'false',
      image: 'a',
      state: 'B',
      'created[gte]': '0',
    });
    assert.ok(result instanceof QueryDto);
    assert.deepEqual(Object.fromEntries(Object.entries(result)), {
      limit: 7,
      after: -1,
      deep: false,
      image: 'a',
      state: 'B',
      'created[gte]': 0,
    });
    assert.deepEqual(Object.entries(await query({})), [['limit', 10]]);
  });

  for (const text of [
    '1abc',
    '1.5',
    '',
    ' 1',
    '1 ',
    '0x1',
    '1e2',
    '+1',
    '-0',
    '01',
    '101',
    '0',
    '٣',
    'NaN',
    '1_0',
  ]) {
    it(`refuses the integer ${JSON.stringify(text)}`, async () => {
      assert.deepEqual(await refusal(query({ limit: text })), ['limit must be an integer from 1 to 100']);
    });
  }

  const cases: [name: string, text: string, line: string][] = [
    ['after', '9007199254740993', 'after must be an integer'],
    ['after', '9'.repeat(400), 'after must be an integer'],
    ['deep', 'TRUE', 'deep must be true or false'],
    ['deep', '1', 'deep must be true or false'],
    ['image', 'abcde', 'image must be a string of at most 4 characters'],
    ['state', 'C', 'state must be one of A, B'],
    ['created[gte]', 'soon', 'created[gte] must be an integer'],
    ['nope', 'x', 'nope is not a known query parameter'],
    ['created[foo]', 'x', 'created[foo] is not a known query parameter'],
    ['constructor', 'x', 'constructor is not a known query parameter'],
    ['a b', 'x', '"a b" is not a known query parameter'],
  ];
  for (const [name, text, line] of cases) {
    it(`refuses ${name}=${text.slice(0, 20)}`, async () => {
      assert.deepEqual(await refusal(query({ [name]: text })), [line]);
    });
  }

  it('refuses __proto__ as a parameter', async () => {
    const parsed: Record<string, string> = Object.create(null);
    parsed['__proto__'] = 'x';
    assert.deepEqual(await refusal(pipe.transform(parsed, { type: 'query', metatype: QueryDto })), [
      '__proto__ is not a known query parameter',
    ]);
  });
});

import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { ArgumentMetadata } from '@nestjs/common';
import {
  Allow,
  ArrayMaxSize,
  IsArray,
  IsIn,
  IsInt,
  IsObject,
  IsString,
  Max,
  Min,
  ValidateBy,
  ValidateIf,
} from 'class-validator';
import * as fc from 'fast-check';
import { stringifyJson } from '@longshore/common/json/json-text';
import { readJson } from '@longshore/common/json/read-json';
import {
  AllowUnknownFields,
  IsJsonInteger,
  IsText,
  IsTextList,
  JsonObject,
  Nested,
  NestedList,
  NestedMap,
  OptionalField,
} from './dto-decorators.js';
import { InvalidRequest } from '../../errors/domain-error.js';
import { PassByReference } from './free-form-json.js';
import { DtoValidationPipe } from './validation.pipe.js';

class LimitsDto {
  @OptionalField() @IsJsonInteger({ min: 0, max: 10 }) ram_mb?: number;
  @OptionalField() @IsJsonInteger({ min: 0 }) cpu?: number;
}

class GpuDto {
  @IsJsonInteger({ min: 0 }) id: number;
  @OptionalField() @IsTextList({ max: 3 }, { max: 2 }) tags?: string[];
}

class SpecDto {
  @IsString() type: string;
  @OptionalField() @PassByReference() @Allow() default?: unknown;
}

class BodyDto {
  @IsText({ min: 1, max: 5, pattern: /^\S+$/, form: 'a name without white space' }) image: string;
  @OptionalField() @IsInt() @Min(1) @Max(9) priority?: number = 3;
  @OptionalField() @JsonObject() inputs?: Record<string, unknown>;
  @OptionalField() @Nested(() => LimitsDto) constraints?: LimitsDto;
  @OptionalField() @NestedList(() => GpuDto, { max: 3 }) gpus?: GpuDto[];
  @OptionalField() @NestedMap(() => SpecDto, { max: 3 }) specs?: Map<string, SpecDto>;
  @OptionalField() @IsIn(['A', 'B'], { message: '$property must be A or B, not $value' }) state?: string;
  @OptionalField() @IsArray() @ArrayMaxSize(2) @IsString({ each: true }) tags?: string[];
}

@AllowUnknownFields()
class BeatDto {
  @IsString() worker_id: string;
  @OptionalField() @Nested(() => LimitsDto) resources?: LimitsDto;
  @OptionalField() @NestedList(() => GpuDto) gpus?: GpuDto[];
}

class BaseDto {
  @IsString() a: string;
  @OptionalField() @JsonObject() o?: object;
}

class ChildDto extends BaseDto {
  @OptionalField() @IsString() b?: string;
}

const pipe = new DtoValidationPipe();

function body(value: unknown, metatype: ArgumentMetadata['metatype'] = BodyDto): Promise<unknown> {
  return pipe.transform(value, { type: 'body', metatype });
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

/** What the parser hands over for a JSON text. */
function json(text: string): unknown {
  return JSON.parse(text);
}

describe('validation of bodies', () => {
  it('builds an instance with its declared fields, defaults and nested classes', async () => {
    const inputs = json('{"__proto__":1,"constructor":{"x":null}}');
    const result = await body({
      image: 'a',
      inputs,
      constraints: { cpu: 2 },
      gpus: [{ id: 0, tags: ['x'] }],
      specs: { one: { type: 'int', default: [1] } },
    });
    assert.ok(result instanceof BodyDto);
    assert.equal(result.priority, 3);
    assert.equal(result.inputs, inputs, 'by reference');
    assert.ok(result.constraints instanceof LimitsDto);
    assert.deepEqual(Object.keys(result.constraints), ['cpu']);
    assert.ok(result.gpus?.[0] instanceof GpuDto);
    assert.ok(result.specs?.get('one') instanceof SpecDto);
    assert.deepEqual(result.specs.get('one')?.default, [1]);
    assert.equal(Object.hasOwn(result, 'state'), false);
  });

  it('counts null in an optional field as absent', async () => {
    const result = await body({
      image: 'a',
      priority: null,
      inputs: null,
      constraints: { cpu: null },
      gpus: null,
    });
    assert.ok(result instanceof BodyDto);
    assert.equal(result.priority, 3);
    assert.deepEqual(Object.keys(result).toSorted(), ['constraints', 'image', 'priority']);
    assert.deepEqual(Object.keys(result.constraints ?? {}), []);
  });

  it('keeps a map entry named __proto__ as an entry', async () => {
    const result = await body(
      json('{"image":"a","specs":{"__proto__":{"type":"int"},"constructor":{"type":"x"}}}'),
    );
    assert.ok(result instanceof BodyDto);
    assert.deepEqual([...(result.specs?.keys() ?? [])], ['__proto__', 'constructor']);
  });

  it('reads inherited fields', async () => {
    assert.deepEqual((await refusal(body({ o: [] }, ChildDto))).toSorted(), [
      'a is required',
      'o must be an object',
    ]);
    assert.ok((await body({ a: 'x', b: 'y', o: {} }, ChildDto)) instanceof ChildDto);
  });

  const cases: [title: string, value: unknown, errors: string[]][] = [
    ['a list', [], ['the body must be a JSON object']],
    ['null', null, ['the body must be a JSON object']],
    ['nothing', undefined, ['the body must be a JSON object']],
    ['a string', 'x', ['the body must be a JSON object']],
    ['a missing field', {}, ['image is required']],
    ['null in a required field', { image: null }, ['image is required']],
    ['a wrong type', { image: 5 }, ['image must be a name without white space of 1 to 5 characters']],
    ['a bad form', { image: 'a b' }, ['image must be a name without white space of 1 to 5 characters']],
    ['a long text', { image: 'abcdef' }, ['image must be a name without white space of 1 to 5 characters']],
    ['a NUL', { image: 'a\0' }, ['image must be a name without white space of 1 to 5 characters']],
    ['a fraction', { image: 'a', priority: 1.5 }, ['priority must be an integer number']],
    ['one line per field', { image: 'a', priority: 'x' }, ['priority must be an integer number']],
    ['a number out of range', { image: 'a', priority: 10 }, ['priority must not be greater than 9']],
    ['a withheld value', { image: 'a', state: 'secret' }, ['state must be A or B, not the value']],
    ['an unknown field', { image: 'a', nope: 1 }, ['nope is not a known field']],
    ['__proto__', json('{"image":"a","__proto__":{"image":"b"}}'), ['__proto__ is not a known field']],
    ['constructor', json('{"image":"a","constructor":1}'), ['constructor is not a known field']],
    [
      'a nested __proto__',
      json('{"image":"a","constraints":{"__proto__":1}}'),
      ['constraints.__proto__ is not a known field'],
    ],
    ['a strange key', { image: 'a', 'a b\r\n': 1 }, ['["a b\\r\\n"] is not a known field']],
    [
      'a long key',
      { image: 'a', [`k${'x'.repeat(99)}`]: 1 },
      [`["k${'x'.repeat(63)}..."] is not a known field`],
    ],
    ['an empty key', { image: 'a', '': 1 }, ['[""] is not a known field']],
    [
      'a nested value',
      { image: 'a', constraints: { ram_mb: 11 } },
      ['constraints.ram_mb must be an integer from 0 to 10'],
    ],
    ['a nested list for an object', { image: 'a', constraints: [] }, ['constraints must be an object']],
    ['a nested string', { image: 'a', constraints: 'x' }, ['constraints must be an object']],
    ['an object for a list', { image: 'a', gpus: {} }, ['gpus must be a list of at most 3 items']],
    ['a null item', { image: 'a', gpus: [null] }, ['gpus[0] must be an object']],
    [
      'an item',
      { image: 'a', gpus: [{ id: 0 }, { id: -1 }] },
      ['gpus[1].id must be an integer of at least 0'],
    ],
    [
      'an unsafe integer',
      { image: 'a', gpus: [{ id: 2 ** 53 }] },
      ['gpus[0].id must be an integer of at least 0'],
    ],
    [
      'too many items',
      { image: 'a', gpus: [{ id: 0 }, { id: 0 }, { id: 0 }, { id: 0 }] },
      ['gpus must be a list of at most 3 items'],
    ],
    [
      'a text list',
      { image: 'a', gpus: [{ id: 0, tags: ['toolong'] }] },
      ['gpus[0].tags must be a list of at most 2 items, each a string of at most 3 characters'],
    ],
    ['a map that is a list', { image: 'a', specs: [] }, ['specs must be an object of at most 3 entries']],
    ['a map entry', { image: 'a', specs: { 'x y': { type: 1 } } }, ['specs["x y"].type must be a string']],
    [
      'an inherited-looking map entry',
      json('{"image":"a","specs":{"__proto__":5}}'),
      ['specs.__proto__ must be an object'],
    ],
    ['a free-form list', { image: 'a', inputs: [] }, ['inputs must be an object']],
    ['a free-form string', { image: 'a', inputs: 'x' }, ['inputs must be an object']],
    ['an item by class-validator', { image: 'a', tags: ['x', 1] }, ['tags[1] must be a string']],
    [
      'too many by class-validator',
      { image: 'a', tags: ['x', 'y', 'z'] },
      ['tags must contain no more than 2 elements'],
    ],
    [
      'several fields',
      { priority: 'x', constraints: { cpu: -1, x: 1 }, y: 1 },
      [
        'image is required',
        'priority must be an integer number',
        'constraints.cpu must be an integer of at least 0',
        'constraints.x is not a known field',
        'y is not a known field',
      ],
    ],
  ];
  for (const [title, value, errors] of cases) {
    it(`refuses ${title}`, async () => {
      assert.deepEqual((await refusal(body(value))).toSorted(), errors.toSorted());
    });
  }

  it('bounds the number of lines', async () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`k${n}`, 1]));
    const lines = await refusal(body({ image: 'a', ...many }));
    assert.equal(lines.length, 101);
    assert.equal(lines.at(-1), 'and 4900 more');
  });

  it('ignores unknown fields where the class allows it, nested ones too', async () => {
    const result = await body(
      { worker_id: 'w', extra: 1, resources: { cpu: 1, disk: 2 }, gpus: [{ id: 1, name: 'x' }] },
      BeatDto,
    );
    assert.ok(result instanceof BeatDto);
    assert.deepEqual(Object.keys(result).toSorted(), ['gpus', 'resources', 'worker_id']);
    assert.deepEqual(Object.keys(result.resources ?? {}), ['cpu']);
    assert.deepEqual(await refusal(body({ worker_id: 1, extra: 1 }, BeatDto)), [
      'worker_id must be a string',
    ]);
  });

  it('refuses numbers that a double does not hold, except in free-form JSON', async () => {
    class ItemDto {
      @IsInt() id: number;
    }
    class PlanDto {
      @OptionalField() @IsInt({ each: true }) ids?: number[];
      @OptionalField() @IsObject() limits?: object;
      @OptionalField() @NestedList(() => ItemDto) items?: ItemDto[];
      @OptionalField() @JsonObject() inputs?: object;
    }
    class NestDto extends PlanDto {
      // Only Nest's own pipe reads this.
      @OptionalField() @ValidateIf(() => true) @IsInt() count?: number;
    }
    const big = '9007199254740993';
    const refused: [field: string, error: string][] = [
      [`"ids":[1,${big}]`, 'ids[1] is a number out of range'],
      [`"limits":{"a":[1e400]}`, 'limits.a[0] is a number out of range'],
      [`"items":[{"id":${big}}]`, 'items[0].id is a number out of range'],
    ];
    for (const type of [PlanDto, NestDto]) {
      const read = (text: string) => body(readJson(Buffer.from(text)), type);
      for (const [field, error] of refused) assert.deepEqual(await refusal(read(`{${field}}`)), [error]);
      for (const inputs of [`{"n":[${big}]}`, '{"n":[1795358081062000000]}']) {
        const result = await read(`{"ids":[1.0],"limits":{"x":0.5},"inputs":${inputs}}`);
        assert.ok(stringifyJson(result).includes(inputs));
      }
    }
    assert.deepEqual(await refusal(body(readJson(Buffer.from(`{"count":${big}}`)), NestDto)), [
      'count is a number out of range',
    ]);
  });

  it('names the path of a message that does not', async () => {
    class CustomDto {
      @ValidateBy({
        name: 'never',
        validator: { validate: () => false, defaultMessage: () => 'ids must be unique' },
      })
      ids: unknown;
    }
    assert.deepEqual(await refusal(body({ ids: [] }, CustomDto)), ['ids: ids must be unique']);
  });

  it('takes only what it declares, whatever JSON comes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        try {
          const result = await body(value);
          assert.ok(result instanceof BodyDto);
          assert.equal(Object.getPrototypeOf(result), BodyDto.prototype);
        } catch (error) {
          assert.ok(error instanceof InvalidRequest);
          assert.ok((error.errors ?? []).length > 0);
        }
      }),
      { numRuns: 500 },
    );
  });
});

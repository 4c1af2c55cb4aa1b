import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { ValidationPipe } from '@nestjs/common';
import type { ValidationError } from '@nestjs/common';
import { Transform, Type } from 'class-transformer';
import {
  Allow,
  ArrayMaxSize,
  IsArray,
  IsBoolean,
  IsDefined,
  IsIn,
  IsInt,
  IsNotEmpty,
  IsNumber,
  IsObject,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  Min,
  ValidateIf,
  ValidateNested,
} from 'class-validator';
import * as fc from 'fast-check';
import { InvalidRequest } from '../../errors/domain-error.js';
import { DtoPlan } from './dto-plan.js';
import { UnsupportedByPlan } from './field-checks.js';
import { PassByReference } from './free-form-json.js';
import { BODY } from './validation.pipe.js';

type DtoClass = new () => object;

/** A generated field: what its decorators are chosen from. */
interface FieldSpec {
  readonly rules: Names<typeof RULES & typeof UNSUPPORTED_RULES>;
  readonly transforms: Names<typeof TRANSFORMS>;
  readonly holds: ClassSpec | keyof typeof PRIMITIVES | undefined;
  readonly container: keyof typeof CONTAINERS;
  readonly isValidated: boolean;
  readonly initial: unknown;
}
interface ClassSpec {
  readonly fields: Readonly<Record<string, FieldSpec>>;
}

const RULES = {
  allow: Allow(),
  isDefined: IsDefined(),
  isNotEmpty: IsNotEmpty(),
  isString: IsString(),
  isInt: IsInt(),
  isNumber: IsNumber(),
  isBoolean: IsBoolean(),
  isObject: IsObject(),
  isArray: IsArray(),
  min: Min(0),
  max: Max(2),
  maxLength: MaxLength(1),
  arrayMaxSize: ArrayMaxSize(1),
  isIn: IsIn(['a', 1, null, undefined]),
  eachString: IsString({ each: true }),
  eachInt: IsInt({ each: true }),
  eachObject: IsObject({ each: true }),
  inGroup: IsInt({ groups: ['update'] }),
  withMessage: IsString({ message: '$property is no text' }),
  isOptional: IsOptional(),
};

/** Rules that a plan leaves to ValidationPipe. */
const UNSUPPORTED_RULES = {
  conditional: IsString({ validateIf: ({ a }: { a?: unknown }) => a === 1 }),
  validateIfOwner: ValidateIf(({ a }: { a?: unknown }) => a !== 1),
  validateIfValue: ValidateIf((_, value) => value !== 'a'),
};

const TRANSFORMS = {
  upperCase: Transform(({ value }) => (typeof value === 'string' ? value.toUpperCase() : value)),
  fromOther: Transform(({ value, obj }) => value ?? obj.a),
  toUndefined: Transform(({ value }) => (value === 'a' ? undefined : value)),
  toKey: Transform(({ value, key }) => (value === 0 ? key : value)),
  inGroup: Transform(() => 'group', { groups: ['update'] }),
  toPlainOnly: Transform(() => 'plain', { toPlainOnly: true }),
  byReference: PassByReference(),
};

type Names<T extends object> = readonly (keyof T)[];

const PRIMITIVES = { number: Number, string: String, boolean: Boolean };
const CONTAINERS = { none: Object, list: Array, map: Map };
const FIELDS = ['a', 'b', 'c'];

const { root: classes } = fc.letrec<{ root: ClassSpec; field: FieldSpec }>((tie) => ({
  root: fc.record({ fields: fc.record({ a: tie('field'), b: tie('field'), c: tie('field') }) }),
  field: fc.record({
    rules: fc.oneof(
      { weight: 40, arbitrary: fc.constantFrom<Names<typeof RULES>[]>([], ['isOptional']) },
      { weight: 12, arbitrary: fc.subarray(keysOf(RULES), { maxLength: 3 }) },
      { weight: 1, arbitrary: fc.subarray(keysOf(UNSUPPORTED_RULES), { minLength: 1 }) },
    ),
    transforms: fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      fc.subarray(keysOf(TRANSFORMS), { maxLength: 2 }),
    ),
    holds: fc.oneof(
      { maxDepth: 3, depthIdentifier: 'class' },
      { weight: 50, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constantFrom(...keysOf(PRIMITIVES)) },
      { weight: 50, arbitrary: tie('root') },
    ),
    container: fc.constantFrom(...keysOf(CONTAINERS)),
    isValidated: fc.oneof({ weight: 50, arbitrary: fc.constant(true) }, fc.constant(false)),
    initial: fc.constantFrom(undefined, undefined, undefined, 1, 'a'),
  }),
}));

const { value: values } = fc.letrec((tie) => ({
  value: fc.dictionary(fc.constantFrom(...FIELDS, ...FIELDS, ...FIELDS, 'x'), tie('any'), {
    maxKeys: 3,
    noNullPrototype: true,
  }),
  any: fc.oneof(
    { maxDepth: 4, depthIdentifier: 'json' },
    fc.constantFrom<unknown[]>('a', 'A', '1', '', 'abc', 0, 1, 3, 1.5, -1, true, false, null),
    tie('value'),
    tie('value'),
    fc.array(tie('any'), { maxLength: 3 }),
  ),
}));

function keysOf<T extends object>(record: T): (keyof T)[] {
  return Object.keys(record).filter((key): key is keyof T & string => key in record);
}

/**
 * @param isInMap class-transformer applies a class's @Transform also to the entries of a map whose key is the field's
 * name, which a plan does not repeat: such a class gets none
 */
function makeClass({ fields }: ClassSpec, isInMap = false): DtoClass {
  const initials = Object.entries(fields).flatMap(([name, { initial }]) =>
    initial === undefined ? [] : [[name, initial] as const],
  );
  // oxlint-disable-next-line typescript/no-extraneous-class -- the decorators are applied below
  class Generated {
    constructor() {
      Object.assign(this, Object.fromEntries(initials));
    }
  }
  for (const [name, { rules, transforms, holds, container, isValidated }] of Object.entries(fields)) {
    const decorators: PropertyDecorator[] = [
      ...rules.map((rule) => ({ ...RULES, ...UNSUPPORTED_RULES })[rule]),
      ...(isInMap ? [] : transforms).map((transform) => TRANSFORMS[transform]),
    ];
    const designType = typeof holds === 'object' ? CONTAINERS[container] : Object;
    Reflect.defineMetadata('design:type', designType, Generated.prototype, name);
    if (rules.length === 0) decorators.push(Allow());
    if (typeof holds === 'string') decorators.push(Type(() => PRIMITIVES[holds]));
    else if (holds !== undefined) {
      const nested = makeClass(holds, designType === Map);
      decorators.push(Type(() => nested));
      if (isValidated) decorators.push(ValidateNested());
    }
    for (const decorate of decorators) decorate(Generated.prototype, name);
  }
  return Generated;
}

/** The value without what only shows in the order or the presence of undefined keys. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (value instanceof Map) return ['Map', ...[...value].map(([key, item]) => [key, comparable(item)])];
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return [
    Object.getPrototypeOf(value),
    entries.map(([key, item]) => [key, comparable(item)] as const).toSorted(([a], [b]) => a.localeCompare(b)),
  ];
}

type Verdict = { readonly accepted: unknown } | { readonly refused: readonly string[] };

/** The verdict of the compiled plan; undefined when it leaves the class to ValidationPipe. */
function byPlan(type: DtoClass, value: unknown): Verdict | undefined {
  try {
    return { accepted: comparable(DtoPlan.of(type).read(value, BODY)) };
  } catch (error) {
    if (error instanceof UnsupportedByPlan) return undefined;
    if (!(error instanceof InvalidRequest)) throw error;
    return { refused: pathsOf((error.errors ?? []).map((line) => line.split(/:? /, 1).join(''))) };
  }
}

class Refused extends Error {
  constructor(readonly errors: readonly ValidationError[]) {
    super('refused');
  }
}

const nest = new ValidationPipe({
  transform: true,
  whitelist: true,
  forbidNonWhitelisted: true,
  validationError: { value: true },
  exceptionFactory: (errors) => new Refused(errors),
});

async function byNest(type: DtoClass, value: unknown): Promise<Verdict> {
  try {
    return { accepted: comparable(await nest.transform(value, { type: 'body', metatype: type })) };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { refused: pathsOf(error.errors.flatMap((each) => failures(each, undefined, ''))) };
  }
}

/** Paths of the fields that fail a constraint; what is nested in such a field does not count. */
function failures(
  { property, value, constraints, children }: ValidationError,
  owner: unknown,
  parent: string,
): string[] {
  const prefix = parent === '' ? '' : `${parent}.`;
  const path = Array.isArray(owner) ? `${parent}[${property}]` : `${prefix}${property}`;
  return constraints === undefined
    ? (children ?? []).flatMap((child) => failures(child, value, path))
    : [path];
}

/** A plan names the item that fails a constraint with `each`, class-validator only the list. */
function pathsOf(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => path.replace(/(?:\[\d+\])+$/, '')))].toSorted();
}

describe('the compiled plan of a DTO class', () => {
  it("agrees with Nest's ValidationPipe for generated classes and values", async () => {
    const seen = { accepted: 0, refused: 0, unsupported: 0 };
    await fc.assert(
      fc.asyncProperty(classes, fc.array(values, { minLength: 8, maxLength: 8 }), async (spec, samples) => {
        const type = makeClass(spec);
        for (const sample of samples) {
          const expected = await byNest(type, structuredClone(sample));
          const actual = byPlan(type, sample);
          if (actual !== undefined) assert.deepEqual(actual, expected);
          if (actual === undefined) seen.unsupported += 1;
          else seen['accepted' in actual ? 'accepted' : 'refused'] += 1;
        }
      }),
      { numRuns: 250, seed: 14, includeErrorInReport: true },
    );
    assert.ok(seen.accepted > 200 && seen.refused > 200, JSON.stringify(seen));
  });
});

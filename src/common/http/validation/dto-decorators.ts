import { applyDecorators } from '@nestjs/common';
import { ApiExtension, ApiExtraModels, ApiProperty, getSchemaPath } from '@nestjs/swagger';
import { Transform, Type } from 'class-transformer';
import type { TransformFnParams, TransformMetadata } from 'class-transformer';
import { IsObject, IsOptional, ValidateBy, ValidateNested } from 'class-validator';
import {
  isCleanText,
  lengthWithin,
  NO_CONTROL_CHARACTERS,
  NO_CONTROLS_BUT_LINES,
} from '@longshore/common/json/text';
import { parsedOf } from '@longshore/common/json/json-text';
import { isJsonObject } from '@longshore/common/json/json-value';
import { PassByReference } from './free-form-json.js';
import { keyPath } from './problems.js';
import type { DtoClass } from './field-checks.js';

/** Bounds of an integer, both inclusive. */
export interface IntegerRange {
  readonly min?: number;
  readonly max?: number;
}

/** Bounds of a text's length in code points, both inclusive, and the form it must have. */
export interface TextShape {
  readonly min?: number;
  readonly max?: number;
  /** Must match; give `form` with it. */
  readonly pattern?: RegExp;
  /** The pattern in words, to follow "must be": e.g. "an identifier of letters and digits". */
  readonly form?: string;
}

/** The form of a text that people will see: a name, a tag, a reason. */
export const SHOWN_TEXT = {
  pattern: NO_CONTROL_CHARACTERS,
  form: 'a string without control characters',
} as const satisfies TextShape;

/** The same for a text that may have several lines. */
export const SHOWN_LINES = {
  pattern: NO_CONTROLS_BUT_LINES,
  form: 'a string without control characters but tabs and line ends',
} as const satisfies TextShape;

/** Bounds of the number of entries of a list or map, both inclusive. */
export interface SizeLimit {
  readonly min?: number;
  readonly max?: number;
}

/** What an object of strings may hold. */
export interface TextMapShape extends Pick<SizeLimit, 'max'> {
  readonly keys?: TextShape;
  /** A name in the right form that was probably meant; undefined: none is. */
  readonly repair?: (name: string) => string | undefined;
  readonly values?: TextShape;
  /** Most bytes of all names and values in UTF-8. */
  readonly maxBytes?: number;
  /** Whether values may be null, which `max` does not count; as many may be null. */
  readonly nullable?: boolean;
}

/** Marks the schema of a class that ignores unknown fields; the OpenAPI document replaces it by a keyword. */
export const IGNORES_UNKNOWN_FIELDS = 'x-ignores-unknown-fields';

const ALLOWS_UNKNOWN = 'longshore:allows-unknown-fields';
const MOST_ENTRIES = 'longshore:most-entries';

/** The transforms that {@link OptionalField} adds. */
export const NULL_TO_INITIAL = new WeakSet<TransformMetadata['transformFn']>();

/** A synchronous constraint. @param rule follows the name of the field in the message, such as "must be a list" */
export function Check(name: string, validate: (value: unknown) => boolean, rule: string): PropertyDecorator {
  return ValidateBy({ name, validator: { validate, defaultMessage: () => `$property ${rule}` } });
}

/** As {@link Check}, with a function that says what is wrong with a value at a path; undefined: nothing. */
export function CheckBy(
  name: string,
  problemOf: (value: unknown, path: string) => string | undefined,
): PropertyDecorator {
  return ValidateBy({
    name,
    validator: {
      validate: (value: unknown) => problemOf(value, '') === undefined,
      defaultMessage: (args) => problemOf(args?.value, '$property') ?? '',
    },
  });
}

/** A field that may be absent. null counts as absent: the field keeps the initial value of its class. */
export function OptionalField(): PropertyDecorator {
  return (target, name) => {
    const transform = ({ value }: TransformFnParams): unknown =>
      value === null ? Reflect.get(Reflect.construct(target.constructor, []), name) : value;
    NULL_TO_INITIAL.add(transform);
    applyDecorators(IsOptional(), Transform(transform, { toClassOnly: true }))(target, name);
  };
}

/** A field that holds one object of another DTO class. */
export function Nested(type: () => DtoClass): PropertyDecorator {
  return applyDecorators(IsObject(), ValidateNested(), Type(type));
}

/** A field that holds a list of objects of another DTO class. */
export function NestedList(
  type: () => DtoClass,
  { max = Infinity }: Pick<SizeLimit, 'max'> = {},
): PropertyDecorator {
  return applyDecorators(
    Reflect.metadata(MOST_ENTRIES, max),
    Check(
      'isBoundedList',
      (value) => Array.isArray(value) && value.length <= max,
      `must be a list${describeBounds(0, max, 'items')}`,
    ),
    IsObject({ each: true }),
    ValidateNested({ each: true }),
    Type(type),
    ...(max === Infinity ? [] : [ApiProperty({ type: () => [type()], maxItems: max })]),
  );
}

/**
 * A field of type `Map` that holds an object from free names to objects of another DTO class. The class must be declared
 * before the one that uses it: the OpenAPI schema names it at once.
 */
export function NestedMap(
  type: () => DtoClass,
  { max = Infinity }: Pick<SizeLimit, 'max'> = {},
): PropertyDecorator {
  return (target, name) => {
    if (Reflect.getMetadata('design:type', target, name) !== Map) {
      throw new TypeError(
        `${target.constructor.name}.${String(name)}: the type of a @NestedMap() must be Map`,
      );
    }
    const model = type();
    applyDecorators(
      Reflect.metadata(MOST_ENTRIES, max),
      Check(
        'isBoundedMap',
        (value) => value instanceof Map && value.size <= max,
        `must be an object${max === Infinity ? '' : ` of at most ${max} entries`}`,
      ),
      ValidateNested(),
      Type(type),
      ApiProperty({ type: 'object', additionalProperties: { $ref: getSchemaPath(model) } }),
    )(target, name);
    ApiExtraModels(model)(target.constructor);
  };
}

/** A field that holds any JSON object (no list, no null), passed on unchanged and by reference. */
export function JsonObject(): PropertyDecorator {
  return applyDecorators(
    IsObject(),
    PassByReference(),
    ApiProperty({ type: 'object', additionalProperties: true }),
  );
}

/** A body class that ignores fields it does not declare, in itself and in everything nested in it. */
export function AllowUnknownFields(): ClassDecorator {
  return (target) => {
    Reflect.defineMetadata(ALLOWS_UNKNOWN, true, target);
    ApiExtension(IGNORES_UNKNOWN_FIELDS, true)(target);
  };
}

/** Whether a class ignores fields it does not declare. */
export function allowsUnknownFields(type: object): boolean {
  return Reflect.hasMetadata(ALLOWS_UNKNOWN, type);
}

/** Entries that a list or map of objects may have; a longer one fails its check. */
export function mostEntriesOf(type: DtoClass, name: string): number {
  const max: unknown = Reflect.getMetadata(MOST_ENTRIES, type.prototype, name);
  return typeof max === 'number' ? max : Infinity;
}

/** A JSON integer that a double holds exactly, within the range. */
export function IsJsonInteger(range: IntegerRange = {}): PropertyDecorator {
  return applyDecorators(
    CheckBy('isJsonInteger', (value, path) => integerProblem(value, range, path)),
    ApiProperty({ type: 'integer', ...schemaInteger(range) }),
  );
}

/** Why a value is not an integer within the range, in words; undefined: it is one. @param path of the value */
export function integerProblem(value: unknown, range: IntegerRange, path: string): string | undefined {
  const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = range;
  return Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max
    ? undefined
    : `${path} must be ${describeInteger(range)}`;
}

/** A string without NUL characters and lone surrogates, of the given shape. */
export function IsText(shape: TextShape = {}): PropertyDecorator {
  return applyDecorators(
    Check('isText', (value) => hasShape(value, shape), `must be ${describeText(shape)}`),
    ApiProperty({ type: 'string', ...schemaText(shape) }),
  );
}

/** A list of strings, each of the given shape. */
export function IsTextList(shape: TextShape = {}, size: SizeLimit = {}): PropertyDecorator {
  return applyDecorators(
    CheckBy('isTextList', (value, path) => textListProblem(value, shape, size, path)),
    ApiProperty({
      type: 'array',
      items: { type: 'string', ...schemaText(shape) },
      ...defined({ minItems: size.min, maxItems: size.max }),
    }),
  );
}

/** Why a value is not a list of strings of this shape, in words; undefined: it is one. @param path of the value */
export function textListProblem(
  value: unknown,
  shape: TextShape,
  { min = 0, max = Infinity }: SizeLimit,
  path = '',
): string | undefined {
  const isList = Array.isArray(value) && value.length >= min && value.length <= max;
  return isList && value.every((item) => hasShape(item, shape))
    ? undefined
    : `${path} must be a list${describeBounds(min, max, 'items')}, each ${describeText(shape)}`;
}

/** A field that holds an object whose values are strings, passed on unchanged and by reference. */
export function IsTextMap(shape: TextMapShape = {}): PropertyDecorator {
  const { max, values = {}, nullable } = shape;
  return applyDecorators(
    PassByReference(),
    CheckBy('isTextMap', (value, path) => textMapProblem(value, shape, path)),
    ApiProperty({
      type: 'object',
      additionalProperties: {
        type: nullable === true ? ['string', 'null'] : 'string',
        ...schemaText(values),
      },
      ...defined({ maxProperties: max !== undefined && nullable === true ? 2 * max : max }),
    }),
  );
}

/** Why a value is not an object of strings of this shape, in words; undefined: it is one. @param path of the value */
export function textMapProblem(
  value: unknown,
  { keys = {}, values = {}, max = Infinity, maxBytes = Infinity, nullable = false, repair }: TextMapShape,
  path = '',
): string | undefined {
  if (!isJsonObject(value)) return `${path} must be an object`;
  const all: [string, unknown][] = Object.entries(parsedOf(value));
  const entries = nullable ? all.filter(([, item]) => item !== null) : all;
  if (entries.length > max || all.length - entries.length > max)
    return `${path} must be an object of at most ${max} entries`;
  const names = entries.map(([key]) => key).filter((key) => !hasShape(key, keys));
  const wrong = names.map((key) => keyPath(path, key));
  const right = names.slice(0, 3).flatMap((key) => repair?.(key) ?? []);
  if (wrong.length > 0) {
    const hint = right.length === 0 ? '' : `, such as ${right.join(', ')}`;
    return `${wrong.join(', ')} must have as name ${describeText(keys)}${hint}`;
  }
  let bytes = 0;
  for (const [key, item] of entries) {
    if (!hasShape(item, values)) return `${keyPath(path, key)} must be ${describeText(values)}`;
    bytes += Buffer.byteLength(key) + Buffer.byteLength(item);
  }
  return bytes > maxBytes ? `${path} must have at most ${maxBytes} bytes of names and values` : undefined;
}

/** Why a value is not a text of this shape, in words; undefined: it is one. @param path of the value */
export function textProblem(value: unknown, shape: TextShape, path: string): string | undefined {
  return hasShape(value, shape) ? undefined : `${path} must be ${describeText(shape)}`;
}

/** The range as OpenAPI keywords. */
export function schemaInteger({ min, max }: IntegerRange): object {
  return defined({ minimum: min, maximum: max });
}

/** The shape as OpenAPI keywords. */
export function schemaText({ min, max, pattern }: TextShape): object {
  return defined({ minLength: min, maxLength: max, pattern: pattern?.source });
}

function hasShape(text: unknown, { min = 0, max = Infinity, pattern }: TextShape): text is string {
  return (
    typeof text === 'string' &&
    isCleanText(text) &&
    lengthWithin(text, min, max) &&
    (pattern === undefined || pattern.test(text))
  );
}

function describeInteger({ min, max }: IntegerRange): string {
  if (min !== undefined && max !== undefined) return `an integer from ${min} to ${max}`;
  if (min !== undefined) return `an integer of at least ${min}`;
  return max === undefined ? 'an integer' : `an integer of at most ${max}`;
}

function describeText({ min = 0, max = Infinity, form = 'a string' }: TextShape): string {
  return form + describeBounds(min, max, 'characters');
}

function describeBounds(min: number, max: number, unit: string): string {
  if (max === Infinity) return min === 0 ? '' : ` of at least ${min} ${unit}`;
  return min === 0 ? ` of at most ${max} ${unit}` : ` of ${min} to ${max} ${unit}`;
}

function defined(keywords: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(keywords).filter(([, value]) => value !== undefined));
}

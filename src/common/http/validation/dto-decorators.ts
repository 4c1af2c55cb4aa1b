import { applyDecorators } from '@nestjs/common';
import { ApiExtension, ApiExtraModels, ApiProperty, getSchemaPath } from '@nestjs/swagger';
import { Transform, Type } from 'class-transformer';
import type { TransformFnParams, TransformMetadata } from 'class-transformer';
import { IsObject, IsOptional, ValidateBy, ValidateNested } from 'class-validator';
import { PassByReference } from './free-form-json.js';
import type { DtoClass } from './field-checks.js';
import { isCleanText, lengthWithin } from '@longshore/common/json/text';
import { IGNORES_UNKNOWN_FIELDS } from '../../../bootstrap/openapi/document-rules.js';

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

/** Where a bounded list or map stops. */
export interface SizeLimit {
  /** Most entries taken. */
  readonly max?: number;
}

/** The transforms that {@link OptionalField} adds. */
export const NULL_TO_INITIAL = new WeakSet<TransformMetadata['transformFn']>();

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
export function NestedList(type: () => DtoClass, { max = Infinity }: SizeLimit = {}): PropertyDecorator {
  return applyDecorators(
    ValidateBy({
      name: 'isBoundedList',
      validator: {
        validate: (value: unknown) => Array.isArray(value) && value.length <= max,
        defaultMessage: () => `$property must be a list${describeSize(0, max)}`,
      },
    }),
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
export function NestedMap(type: () => DtoClass, { max = Infinity }: SizeLimit = {}): PropertyDecorator {
  return (target, name) => {
    if (Reflect.getMetadata('design:type', target, name) !== Map) {
      throw new TypeError(
        `${target.constructor.name}.${String(name)}: the type of a @NestedMap() must be Map`,
      );
    }
    const model = type();
    applyDecorators(
      ValidateBy({
        name: 'isBoundedMap',
        validator: {
          validate: (value: unknown) => value instanceof Map && value.size <= max,
          defaultMessage: () =>
            `$property must be an object${max === Infinity ? '' : ` of at most ${max} entries`}`,
        },
      }),
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

const ALLOWS_UNKNOWN = 'longshore:allows-unknown-fields';

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

/** A JSON integer that a double holds exactly, within the range. */
export function IsJsonInteger(range: IntegerRange = {}): PropertyDecorator {
  const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = range;
  return applyDecorators(
    ValidateBy({
      name: 'isJsonInteger',
      validator: {
        validate: (value: unknown) =>
          Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max,
        defaultMessage: () => `$property must be ${describeInteger(range)}`,
      },
    }),
    ApiProperty({ type: 'integer', ...schemaRange(range) }),
  );
}

/** A string without NUL characters and lone surrogates, of the given shape. */
export function IsText(shape: TextShape = {}): PropertyDecorator {
  return applyDecorators(
    ValidateBy({
      name: 'isText',
      validator: {
        validate: (value: unknown) => typeof value === 'string' && isCleanText(value) && fits(value, shape),
        defaultMessage: () => `$property must be ${describeText(shape)}`,
      },
    }),
    ApiProperty({ type: 'string', ...schemaText(shape) }),
  );
}

/** A list of strings, each of the given shape, `limit.min` of them at least and `limit.max` at most. */
export function IsTextList(
  shape: TextShape = {},
  limit: SizeLimit & { readonly min?: number } = {},
): PropertyDecorator {
  const { min = 0, max = Infinity } = limit;
  const bound = describeSize(min, max);
  return applyDecorators(
    ValidateBy({
      name: 'isTextList',
      validator: {
        validate: (value: unknown) =>
          Array.isArray(value) &&
          value.length >= min &&
          value.length <= max &&
          value.every((item) => typeof item === 'string' && isCleanText(item) && fits(item, shape)),
        defaultMessage: () => `$property must be a list${bound}, each ${describeText(shape)}`,
      },
    }),
    ApiProperty({
      type: 'array',
      items: { type: 'string', ...schemaText(shape) },
      ...(min === 0 ? {} : { minItems: min }),
      ...(max === Infinity ? {} : { maxItems: max }),
    }),
  );
}

/** The range in words: "an integer from 0 to 10". */
export function describeInteger({ min, max }: IntegerRange): string {
  if (min !== undefined && max !== undefined) return `an integer from ${min} to ${max}`;
  if (min !== undefined) return `an integer of at least ${min}`;
  if (max !== undefined) return `an integer of at most ${max}`;
  return 'an integer';
}

/** The shape in words: "a string of 1 to 128 characters". */
export function describeText({ min = 0, max = Infinity, form }: TextShape): string {
  const base = form ?? 'a string';
  if (min === 0 && max === Infinity) return base;
  if (max === Infinity) return `${base} of at least ${min} characters`;
  if (min === 0) return `${base} of at most ${max} characters`;
  return `${base} of ${min} to ${max} characters`;
}

/** Whether a text has the shape. */
export function fits(text: string, { min = 0, max = Infinity, pattern }: TextShape): boolean {
  return lengthWithin(text, min, max) && (pattern === undefined || pattern.test(text));
}

/** The range as OpenAPI keywords. */
export function schemaRange({ min, max }: IntegerRange): { minimum?: number; maximum?: number } {
  return {
    ...(min === undefined ? {} : { minimum: min }),
    ...(max === undefined ? {} : { maximum: max }),
  };
}

/** The shape as OpenAPI keywords. */
export function schemaText(shape: TextShape): { minLength?: number; maxLength?: number; pattern?: string } {
  return {
    ...(shape.min === undefined ? {} : { minLength: shape.min }),
    ...(shape.max === undefined ? {} : { maxLength: shape.max }),
    ...(shape.pattern === undefined ? {} : { pattern: shape.pattern.source }),
  };
}

function describeSize(min: number, max: number): string {
  if (max === Infinity) return min === 0 ? '' : ` of at least ${min} items`;
  return min === 0 ? ` of at most ${max} items` : ` of ${min} to ${max} items`;
}

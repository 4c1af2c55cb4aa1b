import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { ItemCapability } from '@longshore/common/capabilities';
import type { JsonValue } from '@longshore/common/json/json-value';
import {
  IsJsonInteger,
  IsText,
  IsTextList,
  IsTextMap,
  textListProblem,
  textMapProblem,
  type IntegerRange,
  type SizeLimit,
  type TextMapShape,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { PassByReference } from '../../common/http/validation/free-form-json.js';
import {
  objectSchema,
  withoutNulls,
  type ObjectSchema,
  type ObjectShape,
  type TextObjectShape,
} from './option-object.js';

type AnswerSchema =
  | { readonly type: 'string' }
  | { readonly type: 'integer' }
  | { readonly type: 'array'; readonly items: { readonly type: 'string' } }
  | { readonly type: 'array'; readonly items: ObjectSchema }
  | { readonly type: 'object'; readonly additionalProperties: { readonly type: 'string' } | ObjectSchema };

type TextMap = Readonly<Record<string, string>>;

/** An option of a run and of a definition: everything that the service knows about it. */
export interface RunOption<T> {
  /** Validates the field of requests, and gives its schema. */
  readonly field: PropertyDecorator;
  /** Schema of the value in answers. */
  readonly schema: AnswerSchema;
  /** Descriptions in the API: of requests, of answers, and of the answer of a claim, which lacks the option without one. */
  readonly texts: { readonly request: string; readonly answer: string; readonly claim?: string };
  readonly example: T;
  /** What answers show of a run that does not have the option. */
  readonly unset: T | null;
  /** The value as it is stored. Absent: as it is given. */
  store?(value: T): T;
  /** What lists of runs show instead of the value. Absent: the value. */
  list?(value: T): JsonValue;
  /** Joins the values of a definition and of its run. Absent: that of the run replaces the other. */
  merge?(definition: T, run: T): T;
  /** The value of a request for the run that it creates. Absent: as it is given. */
  bind?(value: T, runId: string): T;
  /**
   * What is wrong with a value of the right form, or with one that is merged; undefined: nothing. Of an option of objects, with
   * any value.
   * @param all the options of the request, which are not checked, or those of the definition and its run
   */
  problem?(value: T, all: object, path: string): string | undefined;
  /** What a worker must be able to do to get a run with the option, as `capabilitiesOfOption` reads it; absent: nothing. */
  readonly capabilities?: readonly (string | ItemCapability)[];
}

/** What a declaration says beside the form of the value. */
type Declared<T> = Pick<RunOption<T>, 'texts' | 'example' | 'capabilities' | 'problem' | 'list' | 'bind'>;

type DeclaredObjects<T> = Declared<T> & Required<Pick<RunOption<T>, 'problem'>>;

/** An option that is a text. */
export function textOption(shape: TextShape, declared: Declared<string>): RunOption<string> {
  return { field: IsText(shape), schema: { type: 'string' }, unset: null, ...declared };
}

/** An option that is an integer. A run that gives the default has nothing of the option. */
export function integerOption(
  range: IntegerRange,
  unset: number,
  declared: Declared<number>,
): RunOption<number> {
  return { field: IsJsonInteger(range), schema: { type: 'integer' }, unset, ...declared };
}

/** An option that is a list of texts. */
export function textListOption(
  shape: TextShape,
  size: SizeLimit,
  declared: Declared<readonly string[]>,
): RunOption<readonly string[]> {
  const schema = { type: 'array', items: { type: 'string' } } as const;
  return {
    field: IsTextList(shape, size),
    schema,
    unset: null,
    ...declared,
    problem: (value, all, path) =>
      textListProblem(value, shape, size, path) ?? declared.problem?.(value, all, path),
  };
}

/** An option that has a text for each name. Those of a run are added to those of its definition. */
export function textMapOption(shape: TextMapShape, declared: Declared<TextMap>): RunOption<TextMap> {
  return {
    field: IsTextMap(shape),
    schema: { type: 'object', additionalProperties: { type: 'string' } },
    unset: {},
    ...declared,
    merge: (definition, run) => ({ ...definition, ...run }),
    problem: (value, all, path) => textMapProblem(value, shape, path) ?? declared.problem?.(value, all, path),
  };
}

/** An option that is a list of objects, which `problem` checks. */
export function objectListOption<T extends object>(
  shape: ObjectShape,
  { max }: Required<Pick<SizeLimit, 'max'>>,
  declared: DeclaredObjects<readonly T[]>,
): RunOption<readonly T[]> {
  const field = { type: 'array', maxItems: max, items: objectSchema(shape, 'request') } as const;
  return {
    field: applyDecorators(PassByReference(), ApiProperty(field)),
    schema: { type: 'array', items: objectSchema(shape, 'answer') },
    unset: [],
    store: (value) => value.map(withoutNulls),
    ...declared,
  };
}

/**
 * An option that has an object of texts for each name, which `problem` checks. Those of a run are added to those of its
 * definition.
 * @param listed members that only lists of runs show
 */
export function objectMapOption<T extends object>(
  shape: TextObjectShape,
  { max, listed }: Required<Pick<SizeLimit, 'max'>> & { readonly listed: ObjectSchema['properties'] },
  declared: DeclaredObjects<Readonly<Record<string, T>>>,
): RunOption<Readonly<Record<string, T>>> {
  const field = {
    type: 'object',
    maxProperties: max,
    additionalProperties: objectSchema(shape, 'request'),
  } as const;
  const { properties, ...shown } = objectSchema(shape, 'answer');
  return {
    field: applyDecorators(PassByReference(), ApiProperty(field)),
    schema: { type: 'object', additionalProperties: { ...shown, properties: { ...properties, ...listed } } },
    unset: {},
    store: (value) =>
      Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutNulls(item)])),
    merge: (definition, run) => ({ ...definition, ...run }),
    ...declared,
  };
}

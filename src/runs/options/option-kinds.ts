import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import type { ItemCapability } from '@longshore/common/capabilities';
import { type JsonValue, isJsonObject } from '@longshore/common/json/json-value';
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
  integerProblem,
  schemaInteger,
  schemaText,
  textProblem,
} from '../../common/http/validation/dto-decorators.js';
import { PassByReference } from '../../common/http/validation/free-form-json.js';
import { fieldPath, itemPath, keyPath } from '../../common/http/validation/problems.js';

type AnswerSchema =
  | { readonly type: 'string' }
  | { readonly type: 'integer' }
  | { readonly type: 'array'; readonly items: { readonly type: 'string' } }
  | { readonly type: 'array'; readonly items: ObjectSchema }
  | ObjectSchema
  | { readonly type: 'object'; readonly additionalProperties: { readonly type: 'string' } | ObjectSchema };

type TextMap = Readonly<Record<string, string>>;

/** An option of a run and of a definition: everything that the service knows about it. */
export interface OptionDeclaration<T> {
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
  /** The value of a request for the run that it creates. Absent: as it is given. @throws InvalidRequest */
  bind?(value: T, run: BoundRun, path: string): T;
  /**
   * What is wrong with a value of the right form, or with one that is merged; undefined: nothing.
   * @param all the options of the request, which are not checked, or those of the definition and its run
   */
  problem?(value: T, all: object, path: string): string | undefined;
  /** What a worker must be able to do to get a run with the option, as `capabilitiesOfOption` reads it; absent: nothing. */
  readonly capabilities?: readonly (string | ItemCapability)[];
}

/** What the text of an option may refer to. */
export interface BoundRun {
  readonly id: string;
  readonly name?: string | undefined;
}

/** What a declaration says beside the form of the value. */
type Declared<T> = Pick<
  OptionDeclaration<T>,
  'texts' | 'example' | 'capabilities' | 'problem' | 'list' | 'bind'
>;

/** An option that is a text. */
export function textOption(shape: TextShape, declared: Declared<string>): OptionDeclaration<string> {
  return { field: IsText(shape), schema: { type: 'string' }, unset: null, ...declared };
}

/** An option that is an integer. A run that gives the default has nothing of the option. @param unset null: there is no default */
export function integerOption(
  range: IntegerRange,
  unset: number | null,
  declared: Declared<number>,
): OptionDeclaration<number> {
  return { field: IsJsonInteger(range), schema: { type: 'integer' }, unset, ...declared };
}

/** An option that is a list of texts. */
export function textListOption(
  shape: TextShape,
  size: SizeLimit,
  declared: Declared<readonly string[]>,
): OptionDeclaration<readonly string[]> {
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
export function textMapOption(shape: TextMapShape, declared: Declared<TextMap>): OptionDeclaration<TextMap> {
  return {
    field: IsTextMap(shape),
    schema: { type: 'object', additionalProperties: { type: 'string' } },
    unset: {},
    ...declared,
    merge: (definition, run) => ({ ...definition, ...run }),
    problem: (value, all, path) => textMapProblem(value, shape, path) ?? declared.problem?.(value, all, path),
  };
}

/** An option that is a list of objects. Its `problem` gets them without members that are null. */
export function objectListOption<T extends object>(
  shape: ObjectShape,
  { max }: Required<Pick<SizeLimit, 'max'>>,
  declared: Declared<readonly T[]>,
): OptionDeclaration<readonly T[]> {
  const store = (value: readonly T[]): readonly T[] => value.map(withoutNulls);
  const field = { type: 'array', maxItems: max, items: objectSchema(shape, 'request') } as const;
  return {
    field: applyDecorators(PassByReference(), ApiProperty(field)),
    schema: { type: 'array', items: objectSchema(shape, 'answer') },
    unset: [],
    ...declared,
    store,
    problem: (value: unknown, all, path) => {
      if (!Array.isArray(value) || value.length > max)
        return `${path} must be a list of at most ${max} items`;
      const items = value.map((item, index) => [itemPath(path, index), item] as const);
      return objectsProblem(items, shape) ?? declared.problem?.(store(value), all, path);
    },
  };
}

/**
 * An option that has an object of texts for each name. Its `problem` gets them without members that are null. Those of a run
 * are added to those of its definition.
 * @param listed members that only lists of runs show
 */
export function objectMapOption<T extends object>(
  shape: TextObjectShape,
  { max, listed }: Required<Pick<SizeLimit, 'max'>> & { readonly listed: ObjectSchema['properties'] },
  declared: Declared<Readonly<Record<string, T>>>,
): OptionDeclaration<Readonly<Record<string, T>>> {
  const store = (value: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutNulls(item)]));
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
    ...declared,
    store,
    merge: (definition, run) => ({ ...definition, ...run }),
    problem: (value: unknown, all, path) => {
      if (!isJsonObject(value)) return `${path} must be an object`;
      const items = Object.entries(value).map(([name, item]) => [keyPath(path, name), item] as const);
      if (items.length > max) return `${path} must be an object of at most ${max} entries`;
      return objectsProblem(items, shape) ?? declared.problem?.(store(Object(value)), all, path);
    },
  };
}

/**
 * An option that is an object of integers. Its `problem` gets it without members that are null. Those of a run are added to
 * those of its definition.
 */
export function integersOption<T extends object>(
  shape: Readonly<Record<keyof T & string, IntegerMember>>,
  declared: Declared<T>,
): OptionDeclaration<T> {
  const field = objectSchema(shape, 'request');
  return {
    field: applyDecorators(PassByReference(), ApiProperty({ ...field, properties: { ...field.properties } })),
    schema: objectSchema(shape, 'answer'),
    unset: Object({}),
    ...declared,
    store: withoutNulls,
    merge: (definition, run) => ({ ...definition, ...withoutNulls(run) }),
    problem: (value: unknown, all, path) =>
      objectProblem(value, shape, path) ?? declared.problem?.(withoutNulls(Object(value)), all, path),
  };
}

interface Described {
  readonly about: string;
  readonly isRequired?: boolean;
}

/** A member of an object that is a text. */
interface TextMember extends Described, TextShape {
  readonly type?: 'string';
  readonly example: string;
}

interface IntegerMember extends Described, IntegerRange {
  readonly type: 'integer';
  readonly example: number;
}

interface BooleanMember extends Described {
  readonly type: 'boolean';
  readonly example: boolean;
}

type Member = TextMember | IntegerMember | BooleanMember;

/** What an object may have whose members are texts. */
export type TextObjectShape = Readonly<Record<string, TextMember>>;

/** What an object may have whose members are texts, integers and booleans. */
export type ObjectShape = Readonly<Record<string, Member>>;

/** Its schema in the OpenAPI document. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly required?: string[];
  readonly properties: Readonly<Record<string, object>>;
}

/** @param place answers have no limits */
function objectSchema(shape: ObjectShape, place: 'request' | 'answer'): ObjectSchema {
  const required = Object.keys(shape).filter((name) => shape[name]?.isRequired === true);
  const properties = Object.entries(shape).map(([name, member]) => {
    const { type = 'string', about: description, example } = member;
    return [name, { type, description, example, ...(place === 'request' && limitsOf(member)) }];
  });
  return {
    type: 'object',
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(properties),
  };
}

/** Why one of the values is not an object of this shape, in words; undefined: all are. */
function objectsProblem(
  items: readonly (readonly [path: string, value: unknown])[],
  shape: ObjectShape,
): string | undefined {
  for (const [path, value] of items) {
    const problem = objectProblem(value, shape, path);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Members that are null count as absent. */
function objectProblem(value: unknown, shape: ObjectShape, path: string): string | undefined {
  if (!isJsonObject(value)) return `${path} must be an object`;
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(shape, name));
  if (unknown !== undefined) return `${keyPath(path, unknown)} is not a known field`;
  for (const [name, declared] of Object.entries(shape)) {
    const member = Object.hasOwn(value, name) ? value[name] : undefined;
    const memberPath = fieldPath(path, name);
    if (member === undefined || member === null) {
      if (declared.isRequired === true) return `${memberPath} is required`;
      continue;
    }
    const problem = memberProblem(member, declared, memberPath);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The object without the members that are null. */
function withoutNulls<T extends object>(object: T): T {
  return Object(Object.fromEntries(Object.entries(object).filter(([, member]) => member !== null)));
}

function limitsOf(member: Member): object {
  if (member.type === 'boolean') return {};
  return member.type === 'integer' ? schemaInteger(member) : schemaText(member);
}

function memberProblem(value: unknown, member: Member, path: string): string | undefined {
  if (member.type === 'boolean')
    return typeof value === 'boolean' ? undefined : `${path} must be true or false`;
  return member.type === 'integer' ? integerProblem(value, member, path) : textProblem(value, member, path);
}

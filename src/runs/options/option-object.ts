import { isJsonObject } from '@longshore/common/json/json-value';
import {
  integerProblem,
  schemaInteger,
  schemaText,
  textProblem,
  type IntegerRange,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { fieldPath, keyPath } from '../../common/http/validation/problems.js';

interface Described {
  readonly about: string;
  readonly isRequired?: boolean;
}

/** A member of an object that is a text. */
export interface TextMember extends Described, TextShape {
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
export function objectSchema(shape: ObjectShape, place: 'request' | 'answer'): ObjectSchema {
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

/** Why a value is not an object of this shape, in words; undefined: it is one. Members that are null count as absent. */
export function objectProblem(value: unknown, shape: ObjectShape, path: string): string | undefined {
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
export function withoutNulls<T extends object>(object: T): T {
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

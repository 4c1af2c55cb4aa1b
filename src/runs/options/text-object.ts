import { isJsonObject } from '@longshore/common/json/json-value';
import { schemaText, textProblem, type TextShape } from '../../common/http/validation/dto-decorators.js';
import { fieldPath, keyPath } from '../../common/http/validation/problems.js';

/** A member of an object of texts. */
export interface TextMember extends TextShape {
  readonly about: string;
  readonly example: string;
  readonly isRequired?: boolean;
}

/** What an object may have whose members are texts. */
export type TextObjectShape = Readonly<Record<string, TextMember>>;

/** Its schema in the OpenAPI document. */
export interface ObjectSchema {
  readonly type: 'object';
  readonly required?: string[];
  readonly properties: Readonly<Record<string, object>>;
}

/** @param place answers have no limits */
export function objectSchema(shape: TextObjectShape, place: 'request' | 'answer'): ObjectSchema {
  const required = Object.keys(shape).filter((name) => shape[name]?.isRequired === true);
  const properties = Object.entries(shape).map(([name, { about: description, example, ...text }]) => [
    name,
    { type: 'string', description, example, ...(place === 'request' && schemaText(text)) },
  ]);
  return {
    type: 'object',
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(properties),
  };
}

/** Why a value is not an object of this shape, in words; undefined: it is one. Members that are null count as absent. */
export function objectProblem(value: unknown, shape: TextObjectShape, path: string): string | undefined {
  if (!isJsonObject(value)) return `${path} must be an object`;
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(shape, name));
  if (unknown !== undefined) return `${keyPath(path, unknown)} is not a known field`;
  for (const [name, { isRequired = false, ...text }] of Object.entries(shape)) {
    const member = Object.hasOwn(value, name) ? value[name] : undefined;
    const memberPath = fieldPath(path, name);
    if (member === undefined || member === null) {
      if (isRequired) return `${memberPath} is required`;
      continue;
    }
    const problem = textProblem(member, text, memberPath);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The object without the members that are null. */
export function withoutNulls<T extends object>(object: T): T {
  return Object(Object.fromEntries(Object.entries(object).filter(([, member]) => member !== null)));
}

import { Transform } from 'class-transformer';
import type { TransformFnParams } from 'class-transformer';
import { memberText, parsedOf, partOf } from '@longshore/common/json/json-text';
import { isKept } from '@longshore/common/json/read-json';
import { itemPath, keyPath } from './problems.js';

/** The source of each object that {@link copyJson} made. */
const sources = new WeakMap<object, object>();

/** The objects and lists of which {@link copyJson} made a copy: a field that holds one of them is passed by reference. */
const copied = new WeakSet<object>();

/**
 * Copies JSON without the keys that ValidationPipe or class-transformer drop: `prototype` and the members of Object, such
 * as `__proto__`, `constructor` and `toString`. Objects that are not plain are returned as they are.
 */
export function copyJson(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    copied.add(value);
    return value.map(copyJson);
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  const copy: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(parsedOf(value))) {
    if (key !== 'prototype' && !(key in Object.prototype)) copy[key] = copyJson(item);
  }
  sources.set(copy, value);
  copied.add(value);
  return copy;
}

/**
 * The paths of the numbers that are not those of the request: integers that a double does not hold, and literals that it
 * rounds to infinity or zero. JSON that is passed by reference keeps its text and is left out.
 */
export function roundedNumbers(value: unknown, path: string, seen = new Set<object>()): string[] {
  if (typeof value === 'number') return isKept(value) ? [] : [path];
  if (typeof value !== 'object' || value === null || seen.has(value)) return [];
  if (copied.has(value) || ArrayBuffer.isView(value) || partOf(value) !== undefined) return [];
  // What a @Transform makes may refer to itself.
  seen.add(value);
  if (Array.isArray(value) || value instanceof Set) {
    return [...value].flatMap((item, index) => roundedNumbers(item, itemPath(path, index), seen));
  }
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.flatMap(([key, item]) => roundedNumbers(item, keyPath(path, String(key)), seen));
}

/** Gives a field the value of the request itself instead of class-transformer's copy. */
export function passByReference(params: TransformFnParams): unknown {
  const given = givenValue(params);
  // Reading the value copies it.
  return typeof given === 'object' && given !== null ? given : params.value;
}

/** The value of the request; undefined: it has none. */
function givenValue({ obj, key }: TransformFnParams): unknown {
  const source = sources.get(obj) ?? obj;
  return Object.hasOwn(source, key) ? source[key] : undefined;
}

/** The text of a value of the request; null and an absent value stay as they are. */
function readText(params: TransformFnParams): unknown {
  const given = givenValue(params) ?? params.value;
  return given === undefined || given === null
    ? given
    : memberText(sources.get(params.obj) ?? params.obj, params.key);
}

/** A field of type string that takes any JSON value as its text, with all digits of numbers. Null counts as absent. */
export function AsJsonText(): PropertyDecorator {
  return Transform(readText, { toClassOnly: true });
}

/** A field of free-form JSON, passed on by reference with all its keys. Combine it with a check of the value. */
export function PassByReference(): PropertyDecorator {
  return Transform(passByReference, { toClassOnly: true });
}

import type { JsonObject } from './json-value.js';

const texts = new WeakMap<JsonObject, string>();

/** The cached JSON text of an object that does not change. */
export function jsonText(value: JsonObject): string {
  const known = texts.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  texts.set(value, text);
  return text;
}

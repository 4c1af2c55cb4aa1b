/** Any value that JSON can say. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

/** A JSON object with keys of the user's choosing. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** True for a JSON object; false for arrays, null and scalars. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

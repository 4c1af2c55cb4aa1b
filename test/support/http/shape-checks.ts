import assert from 'node:assert/strict';

/** Says at which path a value is not what it must be, by throwing. */
export type Check = (value: unknown, path: string) => void;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

export const text: Check = (value, path) => assert.equal(typeof value, 'string', `${path} is a string`);
export const integer: Check = (value, path) =>
  assert.ok(Number.isSafeInteger(value), `${path} is an integer`);
export const amount: Check = (value, path) =>
  assert.ok(typeof value === 'number' && Number.isFinite(value), `${path} is a number`);
export const positive: Check = (value, path) =>
  assert.ok(Number.isSafeInteger(value) && Number(value) > 0, `${path} is a positive integer`);
export const uuid: Check = (value, path) => assert.match(String(value), UUID, `${path} is a UUID`);
export const uuidV7: Check = (value, path) => assert.match(String(value), UUID_V7, `${path} is a UUID v7`);
export const timestamp: Check = (value, path) =>
  assert.match(String(value), TIMESTAMP, `${path} is a timestamp`);
export const free: Check = (value, path) =>
  assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), `${path} is an object`);
export const message: Check = (value, path) =>
  assert.ok(typeof value === 'string' || Number.isSafeInteger(value), `${path} is a string or an integer`);

export const orNull =
  (check: Check): Check =>
  (value, path) => {
    if (value !== null) check(value, path);
  };

export const oneOf =
  (...values: readonly unknown[]): Check =>
  (value, path) =>
    assert.ok(values.includes(value), `${path} is one of ${values.join(', ')}`);

export const listOf =
  (check: Check): Check =>
  (value, path) => {
    assert.ok(Array.isArray(value), `${path} is a list`);
    value.forEach((item, i) => check(item, `${path}[${i}]`));
  };

export const mapOf =
  (check: Check): Check =>
  (value, path) => {
    free(value, path);
    for (const [key, item] of Object.entries(Object(value))) check(item, `${path}.${key}`);
  };

/** An object that has every key of `always`, may have those of `sometimes`, and has no other. */
export const objectOf =
  (always: Readonly<Record<string, Check>>, sometimes: Readonly<Record<string, Check>> = {}): Check =>
  (value, path) => {
    free(value, path);
    const entries = Object.entries(Object(value));
    const given = new Set(entries.map(([key]) => key));
    const missing = Object.keys(always).filter((key) => !given.has(key));
    assert.deepEqual(missing, [], `${path} has all its fields`);
    for (const [key, item] of entries) {
      const check = always[key] ?? sometimes[key];
      assert.ok(check, `${path}.${key} is a documented field`);
      check(item, `${path}.${key}`);
    }
  };

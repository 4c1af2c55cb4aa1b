import type { ApiDescription, Schema } from './api-document.js';
import type { Draw } from './draw.js';
import type { KnownThings } from './known-things.js';

const INT = 2 ** 53 - 1;
const TRIES = 20;
const TIMES = ['2026-01-02T03:04:05.678Z', '2100-01-31T09:00:00Z', '1999-12-31T23:59:59+01:00'] as const;

/** Draws values that a schema allows, of things that are known where a name suggests it. */
export class SchemaValues {
  constructor(
    private readonly api: ApiDescription,
    private readonly draw: Draw,
    private readonly known: KnownThings,
    /** Path of the operation, which says what a name means. */
    private readonly path: string,
  ) {}

  /** A value that the schema allows. @param name of the field that it is for */
  valid(given: Schema, name: string): unknown {
    const schema = this.api.resolve(given);
    if (schema.enum) return this.draw.pick(schema.enum);
    const members = schema.oneOf ?? schema.anyOf;
    if (members) return this.valid(this.draw.pick(members) ?? {}, name);
    const types = typeof schema.type === 'string' ? [schema.type] : (schema.type ?? []);
    switch (this.draw.pick(types)) {
      case 'null':
        return null;
      case 'boolean':
        return this.draw.chance(50);
      case 'integer':
      case 'number':
        return this.#number(schema, name);
      case 'string':
        return this.#text(schema, name);
      case 'array':
        return this.#list(schema, name);
      case 'object':
        return this.#object(schema);
      case undefined:
      default:
        return this.draw.json();
    }
  }

  #text(schema: Schema, name: string): string {
    const { minLength = 0, maxLength = 40, format } = schema;
    if (format === 'date-time') return this.draw.pick(TIMES);
    const suggested = this.draw.chance(75) ? this.known.suggest(name, this.path, this.draw) : undefined;
    if (suggested !== undefined && fits(suggested, schema)) return suggested;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const text = this.draw.text(minLength, maxLength);
      if (fits(text, schema)) return text;
    }
    const usual = [
      schema.example,
      '15m',
      'oom',
      'CHECKPOINT',
      'me',
      '1',
      '019a2b3c-0000-7000-8000-0c1d2e3f4a5b',
      'a'.repeat(Math.max(1, minLength)),
      'a'.repeat(64),
    ];
    const text = usual.find((one): one is string => typeof one === 'string' && fits(one, schema));
    if (text === undefined) throw new Error(`no text for ${JSON.stringify(schema)}`);
    return text;
  }

  #number({ minimum = -INT, maximum = INT }: Schema, name: string): number {
    const suggested = this.draw.chance(75) ? this.known.suggest(name, this.path, this.draw) : undefined;
    return suggested === undefined ? this.draw.int(minimum, maximum) : Number(suggested);
  }

  #list({ items = {}, minItems = 0, uniqueItems = false }: Schema, name: string): unknown[] {
    const list = Array.from({ length: this.draw.int(minItems, minItems + 2) }, () => this.valid(items, name));
    return uniqueItems ? [...new Set(list)] : list;
  }

  #object(schema: Schema): object {
    const { properties = {}, required = [], additionalProperties: others } = schema;
    const declared = Object.entries(properties)
      .filter(([key]) => required.includes(key) || this.draw.chance(50))
      .map(([key, property]) => [key, this.valid(property, key)] as const);
    if (others === true) return { ...this.draw.object(), ...Object.fromEntries(declared) };
    if (typeof others !== 'object') return Object.fromEntries(declared);
    const keys = Object.keys(this.draw.object());
    return Object.fromEntries([...declared, ...keys.map((key) => [key, this.valid(others, key)] as const)]);
  }
}

function fits(text: string, { minLength = 0, maxLength = Infinity, pattern }: Schema): boolean {
  const { length } = [...text];
  if (length < minLength || length > maxLength) return false;
  return pattern === undefined || new RegExp(pattern, 'u').test(text);
}

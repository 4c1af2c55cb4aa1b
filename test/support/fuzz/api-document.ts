import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { PROJECT } from '../service-process.js';

/** A JSON Schema as an OpenAPI 3.1 document holds it. */
export interface Schema {
  readonly $ref?: string;
  readonly allOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly minProperties?: number;
  readonly uniqueItems?: boolean;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly example?: unknown;
}

/** A parameter in the path, the query or a header. */
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly schema: Schema;
}

interface Reference {
  readonly $ref: string;
}

interface Media {
  readonly schema: Schema;
}

interface Header extends Media {
  readonly required?: boolean;
}

interface Answer {
  readonly headers?: Readonly<Record<string, Header | Reference>>;
  readonly content?: Readonly<Record<string, Media>>;
}

interface Documented {
  readonly operationId: string;
  readonly parameters?: readonly (Parameter | Reference)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Answer | Reference>>;
  readonly security: readonly unknown[];
}

/** The parts of the document that the tests read. */
export interface ApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Documented>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
    readonly headers: Readonly<Record<string, Header>>;
    readonly responses: Readonly<Record<string, Answer>>;
  };
}

/** The description of the built service: the swagger plugin, which adds to it, runs in the build only. */
export function readApiDocument(): ApiDocument {
  return JSON.parse(readFileSync(join(PROJECT, 'openapi.json'), 'utf8'));
}

/** One operation of the API. */
export interface Operation {
  readonly id: string;
  readonly method: string;
  /** Template, such as `/runs/{id}`. */
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly body: Schema | undefined;
  readonly responses: Readonly<Record<string, Answer>>;
  /** Whether it asks for an API key. */
  readonly secured: boolean;
}

/** What a service answered. */
export interface AnswerParts {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: unknown;
}

/** An API's description, and what it says of requests and answers. Objects may hold only what is described. */
export class ApiDescription {
  readonly operations: readonly Operation[];
  readonly #document: ApiDocument;
  readonly #ajv: Ajv2020;

  constructor(document: ApiDocument) {
    this.#document = document;
    this.operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, documented]) => ({
        id: documented.operationId,
        method: method.toUpperCase(),
        path,
        parameters: (documented.parameters ?? []).map((parameter) =>
          dereference(document.components.parameters, parameter),
        ),
        body: documented.requestBody?.content['application/json']?.schema,
        responses: Object.fromEntries(
          Object.entries(documented.responses).map(([status, answer]) => [
            status,
            dereference(document.components.responses, answer),
          ]),
        ),
        secured: documented.security.length > 0,
      })),
    );
    this.#ajv = schemasOf(document);
    this.#ajv.addSchema({ ...document, $id: 'open' }, 'open');
  }

  /** The schema that a reference stands for, or the schema itself. */
  resolve(schema: Schema): Schema {
    const { $ref } = schema;
    return $ref === undefined
      ? schema
      : this.resolve(dereference(this.#document.components.schemas, { $ref }));
  }

  /** Whether the body is one that the description allows. @param lenient unknown fields are allowed */
  takesBody(operation: Operation, body: unknown, lenient: boolean): boolean {
    const place = ['paths', operation.path, operation.method.toLowerCase(), 'requestBody', 'content'];
    const validate = this.#validator([...place, 'application/json', 'schema'], lenient ? 'open' : 'closed');
    return validate(body);
  }

  /** @throws AssertionError when the description does not allow the operation this answer */
  check(operation: Operation, answer: AnswerParts): void {
    const { status, headers, text } = answer;
    const documented = operation.responses[String(status)];
    assert.ok(documented, `status ${status} is not documented: ${text.slice(0, 200)}`);
    const place = ['paths', operation.path, operation.method.toLowerCase(), 'responses', String(status)];
    const [mediaType = ''] = (headers.get('content-type') ?? '').split(';');
    const types = Object.keys(documented.content ?? {});
    if (types.length === 0) assert.equal(text, '', 'an answer without a documented body has none');
    else assert.ok(types.includes(mediaType), `content type ${mediaType} is documented`);
    if (mediaType === 'application/json') {
      this.#assertValid([...place, 'content', mediaType, 'schema'], answer.body, text);
    }
    for (const [name, header] of Object.entries(documented.headers ?? {})) {
      const { schema, required } = dereference(this.#document.components.headers, header);
      const value = headers.get(name);
      assert.ok(value !== null || required !== true, `header ${name} is there`);
      if (value === null) continue;
      const { type } = this.resolve(schema);
      const read = type === 'integer' || type === 'number' ? Number(value) : value;
      const at = '$ref' in header ? header.$ref.split('/').slice(1) : [...place, 'headers', name];
      this.#assertValid([...at, 'schema'], read, `header ${name}: ${value}`);
    }
  }

  #assertValid(place: readonly string[], value: unknown, shown: string): void {
    const validate = this.#validator(place, 'closed');
    const [problem] = validate(value) ? [] : (validate.errors ?? []);
    const { instancePath = '', message = 'is not valid', params = {} } = problem ?? {};
    assert.equal(
      problem,
      undefined,
      `${instancePath} ${message} ${JSON.stringify(params)} in ${shown.slice(0, 500)}`,
    );
  }

  #validator(place: readonly string[], document: 'open' | 'closed'): ValidateFunction {
    const pointer = place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')));
    const validate = this.#ajv.getSchema(`${document}#/${pointer.join('/')}`);
    assert.ok(validate, `${place.join(' ')} has a schema`);
    return validate;
  }
}

/** The schemas of the document below `closed#`, where objects hold nothing but the fields that they declare. */
export function schemasOf(document: ApiDocument): Ajv2020 {
  // OpenAPI's own keywords (example, discriminator ...) are no errors.
  const ajv = new Ajv2020({ strict: false });
  formats.default(ajv);
  return ajv.addSchema(closed({ ...document, $id: 'closed' }), 'closed');
}

/** What a reference of the document stands for, or the thing itself. */
function dereference<T extends object>(known: Readonly<Record<string, T>>, thing: T | Reference): T {
  if (!('$ref' in thing)) return thing;
  const found = known[thing.$ref.split('/').at(-1) ?? ''];
  assert.ok(found, `${thing.$ref} is in the document`);
  return found;
}

/** The same document, whose objects hold nothing but the fields they declare. */
function closed(part: unknown): object {
  const copy = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(copy);
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([key, item]) => [key, copy(item)] as const);
    const closes = 'properties' in value && !('additionalProperties' in value) && 'type' in value;
    return { ...Object.fromEntries(entries), ...(closes ? { additionalProperties: false } : {}) };
  };
  return Object(copy(part));
}

import type { OpenAPIObject } from '@nestjs/swagger';
import { BODY_EXAMPLES, namedExamples } from '../../common/http/api-examples.js';
import { ERROR_SCHEMA, errorResponse } from '../../common/http/errors/error.dto.js';
import { errorExample } from './error-examples.js';
import { IGNORES_UNKNOWN_FIELDS } from '../../common/http/validation/dto-decorators.js';

type OperationObject = NonNullable<OpenAPIObject['paths'][string]['get']>;
type Response = OperationObject['responses'][string];
type ReferenceObject = Extract<Response, { readonly $ref: string }>;
type ParameterObject = Exclude<NonNullable<OperationObject['parameters']>[number], ReferenceObject>;
type Schema = NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string];
type SchemaObject = Exclude<Schema, ReferenceObject>;

const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options'] as const;
const NULL = { type: 'null' } as const;

/** Completes the document that Nest makes. */
export function applyRules(document: OpenAPIObject): void {
  const rules = [
    shortenOperationIds,
    joinLines,
    unwrapSingleAllOf,
    removeNeedlessLengths,
    allowNullInOptionalInput,
    closeInputSchemas,
    declarePublicOperations,
    describeOptionalExamples,
    addBodyExamples,
    addCommonErrors,
    addErrorExamples,
    addCommonParts,
    sortPathsByTag,
  ];
  for (const rule of rules) rule(document);
}

/**
 * Moves the examples of optional parameters, and of everything that deletes, into their descriptions: Swagger UI fills its
 * form with examples, so that "Execute" would filter by them, or delete what they name.
 */
function describeOptionalExamples(document: OpenAPIObject): void {
  for (const { method, operation } of operationsOf(document)) {
    if (operation.parameters === undefined) continue;
    operation.parameters = operation.parameters.map((parameter) =>
      '$ref' in parameter || (parameter.required === true && method !== 'delete')
        ? parameter
        : withDescribedExample(parameter),
    );
  }
}

function withDescribedExample(parameter: ParameterObject): ParameterObject {
  const { schema = {}, description = '', example: own, ...others } = parameter;
  const { example = own, ...rest }: SchemaObject = '$ref' in schema ? {} : schema;
  if (example === undefined) return parameter;
  const text = Array.isArray(example) ? example.join(',') : String(example);
  return { ...others, description: `${description} For example: \`${text}\`.`.trim(), schema: rest };
}

/** Names our own operations, which have tags of the document, by their methods alone; an extension may have the same methods. */
function shortenOperationIds(document: OpenAPIObject): void {
  const own = new Set(document.tags?.map(({ name }) => name));
  for (const { operation } of operationsOf(document)) {
    if (operation.tags?.some((tag) => own.has(tag)) !== true || operation.operationId === undefined) continue;
    operation.operationId = operation.operationId.replace(/^\w+Controller_/, '');
  }
}

/** Joins the lines of texts that come from comments. */
function joinLines(document: OpenAPIObject): void {
  for (const { operation } of operationsOf(document)) {
    if (operation.summary) operation.summary = operation.summary.replaceAll('\n', ' ');
    if (operation.description) operation.description = operation.description.replaceAll('\n', ' ');
  }
}

/** Adds the examples of request bodies. */
function addBodyExamples(document: OpenAPIObject): void {
  for (const { operation } of operationsOf(document)) {
    const { operationId = '', requestBody } = operation;
    const examples = BODY_EXAMPLES[operationId];
    if (examples === undefined || requestBody === undefined || '$ref' in requestBody) continue;
    for (const media of Object.values(requestBody.content)) media.examples = namedExamples(examples);
  }
}

/**
 * Adds the error responses that routes have by what they take: 400, 503 where a key is read from the database, 413 and 415 with
 * a body. What a route documents itself stays.
 */
function addCommonErrors(document: OpenAPIObject): void {
  for (const { operation } of operationsOf(document)) {
    const needsKey = operation.security !== undefined && operation.security.length > 0;
    const ofBody = operation.requestBody === undefined ? [] : ([413, 415] as const);
    for (const status of [400, ...ofBody, ...(needsKey ? [503 as const] : [])] as const) {
      operation.responses[status] ??= errorResponse(status);
    }
  }
}

/** Gives every error response an example, unless it has one. */
function addErrorExamples(document: OpenAPIObject): void {
  for (const { path, operation } of operationsOf(document)) {
    const { operationId = '', responses } = operation;
    for (const [status, response] of Object.entries(responses)) {
      if (response === undefined || '$ref' in response) continue;
      const media = response.content?.['application/json'];
      const example = errorExample(operationId, path, Number(status));
      if (media && isError(media.schema) && example) media.example ??= example;
    }
  }
}

function isError(schema: Schema | undefined): boolean {
  return schema !== undefined && '$ref' in schema && schema.$ref === ERROR_SCHEMA.$ref;
}

interface DescribedOperation {
  readonly path: string;
  readonly method: (typeof METHODS)[number];
  readonly operation: OperationObject;
}

function operationsOf(document: OpenAPIObject): DescribedOperation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [{ path, method, operation }];
    }),
  );
}

/** Replaces `allOf` with one member by that member; OpenAPI 3.1 allows keywords beside a `$ref`. */
function unwrapSingleAllOf(document: OpenAPIObject): void {
  forEachSchema(document, (schema) => {
    const [member, ...others] = schema.allOf ?? [];
    if (member === undefined || others.length > 0) return;
    delete schema.allOf;
    Object.assign(schema, member);
  });
}

/** Removes the minimum length, which a decorator of query parameters declares, from integers and enumerations: generators fail on it. */
function removeNeedlessLengths(document: OpenAPIObject): void {
  forEachSchema(document, (schema) => {
    if (schema.type === 'integer' || schema.enum !== undefined) delete schema.minLength;
  });
}

/** Allows null for optional fields of request bodies: the service treats null as absent. */
function allowNullInOptionalInput(document: OpenAPIObject): void {
  for (const schema of inputSchemas(document)) {
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      if (schema.required?.includes(name) !== true) allowNull(property);
    }
  }
}

/** Forbids unknown fields in request bodies, except where the service ignores them. */
function closeInputSchemas(document: OpenAPIObject): void {
  for (const schema of inputSchemas(document)) {
    if (schema.properties && !Reflect.has(schema, IGNORES_UNKNOWN_FIELDS)) {
      schema.additionalProperties ??= false;
    }
  }
  for (const schema of Object.values(document.components?.schemas ?? {})) {
    Reflect.deleteProperty(schema, IGNORES_UNKNOWN_FIELDS);
  }
}

/** Declares that operations without a security requirement need no credentials. */
function declarePublicOperations(document: OpenAPIObject): void {
  for (const { operation } of operationsOf(document)) operation.security ??= [];
}

/** Documents what every operation has in common: the request id and the 408 response. */
function addCommonParts(document: OpenAPIObject): void {
  const requestId = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' };
  document.components = {
    ...document.components,
    parameters: {
      RequestId: {
        name: 'X-Request-Id',
        in: 'header',
        required: false,
        description:
          'Id of the request in the log. The service generates one if it is absent or has another form.',
        schema: requestId,
      },
    },
    headers: { RequestId: { description: 'Id of the request in the log.', schema: requestId } },
    responses: {
      RequestTimeout: {
        description: 'The request did not arrive in time. The service closes the connection.',
        content: { 'application/json': { schema: ERROR_SCHEMA, example: errorExample('', '', 408) } },
      },
    },
  };
  for (const { operation } of operationsOf(document)) {
    operation.parameters = [...(operation.parameters ?? []), { $ref: '#/components/parameters/RequestId' }];
    for (const response of Object.values(operation.responses)) {
      if (response !== undefined && !('$ref' in response)) {
        response.headers = {
          ...response.headers,
          'X-Request-Id': { $ref: '#/components/headers/RequestId' },
        };
      }
    }
    operation.responses['408'] = { $ref: '#/components/responses/RequestTimeout' };
  }
}

/** Orders the paths as the document orders its tags; paths of one tag stay in the order of registration. */
function sortPathsByTag(document: OpenAPIObject): void {
  const tags = document.tags?.map(({ name }) => name) ?? [];
  const place = ([, item]: (typeof paths)[number]): number => {
    const tag = METHODS.flatMap((method) => item[method]?.tags ?? [])[0] ?? '';
    return tags.includes(tag) ? tags.indexOf(tag) : tags.length;
  };
  const paths = Object.entries(document.paths);
  document.paths = Object.fromEntries(paths.toSorted((a, b) => place(a) - place(b)));
}

/** The object schemas that occur in request bodies and not in responses. */
function inputSchemas(document: OpenAPIObject): SchemaObject[] {
  const operations = operationsOf(document).map(({ operation }) => operation);
  const bodies = operations.map(({ requestBody }) => requestBody);
  const responses = operations.map((operation) => operation.responses);
  const outputs = reachable(document, responses);
  return [...reachable(document, bodies)].filter((schema) => !outputs.has(schema));
}

/** The schemas that a part of the document holds or references, directly and indirectly. */
function reachable(document: OpenAPIObject, part: unknown): Set<SchemaObject> {
  const found = new Set<SchemaObject>();
  const visit = (schema: SchemaObject): void => {
    if (found.has(schema)) return;
    found.add(schema);
    const name = Reflect.get(schema, '$ref')?.split('/').at(-1);
    const target = name === undefined ? undefined : document.components?.schemas?.[name];
    walkSchema(target, visit);
  };
  forEachSchema(part, visit);
  return found;
}

function allowNull(schema: Schema): void {
  if ('$ref' in schema) {
    const { $ref } = schema;
    Reflect.deleteProperty(schema, '$ref');
    Object.assign(schema, { anyOf: [{ $ref }, NULL] });
    return;
  }
  if (schema.enum && !schema.enum.includes(null)) schema.enum = [...schema.enum, null];
  if (schema.type !== undefined) schema.type = [...new Set([schema.type, 'null'].flat())];
  const members = schema.oneOf ?? schema.anyOf;
  if (members?.every((member) => !('type' in member) || member.type !== 'null')) members.push(NULL);
}

/** Calls `visit` with every schema in a part of the document, the outer ones first. */
function forEachSchema(part: unknown, visit: (schema: SchemaObject) => void): void {
  if (typeof part !== 'object' || part === null) return;
  for (const [key, value] of Object.entries(part)) {
    if (key === 'schema') walkSchema(value, visit);
    else if (key === 'schemas') Object.values(Object(value)).forEach((schema) => walkSchema(schema, visit));
    else if (!key.startsWith('example')) forEachSchema(value, visit);
  }
}

function walkSchema(schema: unknown, visit: (schema: SchemaObject) => void): void {
  // `additionalProperties` may be a boolean.
  if (typeof schema !== 'object' || schema === null) return;
  visit(schema);
  const { properties, items, additionalProperties, contentSchema, allOf, oneOf, anyOf } = Object(schema);
  const single = [items, additionalProperties, contentSchema];
  const members = [allOf, oneOf, anyOf].flatMap((list) => list ?? []);
  for (const inner of [...Object.values(properties ?? {}), ...single, ...members]) walkSchema(inner, visit);
}

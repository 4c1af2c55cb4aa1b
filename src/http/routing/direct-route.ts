import { RequestMethod, type Type } from '@nestjs/common';
import {
  EXCEPTION_FILTERS_METADATA,
  GUARDS_METADATA,
  HEADERS_METADATA,
  HOST_METADATA,
  HTTP_CODE_METADATA,
  INTERCEPTORS_METADATA,
  METHOD_METADATA,
  PARAMTYPES_METADATA,
  PATH_METADATA,
  PIPES_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
  RESPONSE_PASSTHROUGH_METADATA,
  SSE_METADATA,
  VERSION_METADATA,
} from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/internal';
import { declaredParameters, type DeclaredParameter } from '../declared-parameters.js';
import type { DtoValidationPipe } from '../validation.pipe.js';
import { readParameter, type Parameter } from './parameter.js';
import type { Handler, RouteContext } from './route-context.js';

/** A route that is carried out without Nest's router: everything about it that is the same for each request. */
export interface DirectRoute {
  readonly method: string;
  /** Such as `/runs/:id`. */
  readonly path: string;
  readonly controller: Type<unknown>;
  readonly handler: Handler;
  /** The status of an answer unless the handler sets another. */
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** Whether the handler sends the answer; else what it returns is the answer. */
  readonly answersItself: boolean;
  /** Reads the parameters and calls the handler. @throws InvalidRequest when the body or the query does not fit */
  readonly call: (context: RouteContext) => unknown;
}

/** What Nest may be told about a route, or its controller, that is not done here. */
const BEYOND = [
  GUARDS_METADATA,
  INTERCEPTORS_METADATA,
  PIPES_METADATA,
  EXCEPTION_FILTERS_METADATA,
  RENDER_METADATA,
  REDIRECT_METADATA,
  SSE_METADATA,
  VERSION_METADATA,
  HOST_METADATA,
];

/**
 * Reads the decorators of a controller's method.
 * @param pipe checks bodies and queries
 * @returns undefined when the method is no route, or asks for something that only Nest's router does
 */
export function readDirectRoute(
  controller: object,
  name: string,
  pipe: DtoValidationPipe,
): DirectRoute | undefined {
  const type: unknown = controller.constructor;
  const handler: unknown = Reflect.get(controller, name);
  if (!isClass(type) || !isHandler(handler)) return undefined;
  const place = placeOf(type, handler);
  const headers = fixedHeaders(handler);
  if (place === undefined || headers === undefined) return undefined;
  if (BEYOND.some((key) => isTold(handler, key) || isTold(type, key))) return undefined;
  const declared = declaredParameters(type, name);
  const parameters = inOrder(declared, typesOf(controller, name), pipe);
  if (parameters === undefined) return undefined;
  const status: unknown = Reflect.getMetadata(HTTP_CODE_METADATA, handler);
  const passesOn = isTold(type, RESPONSE_PASSTHROUGH_METADATA, name);
  return {
    ...place,
    controller: type,
    handler,
    status: typeof status === 'number' ? status : place.method === 'POST' ? 201 : 200,
    headers,
    answersItself: !passesOn && declared.some(({ kind }) => kind === RouteParamtypes.RESPONSE),
    call: (context) =>
      handler.apply(
        controller,
        parameters.map((parameter) => parameter(context)),
      ),
  };
}

function placeOf(type: Type<unknown>, handler: Handler): Pick<DirectRoute, 'method' | 'path'> | undefined {
  const base: unknown = Reflect.getMetadata(PATH_METADATA, type);
  const path: unknown = Reflect.getMetadata(PATH_METADATA, handler);
  const method = RequestMethod[Number(Reflect.getMetadata(METHOD_METADATA, handler))];
  if (typeof base !== 'string' || typeof path !== 'string') return undefined;
  if (method === undefined || method === 'ALL') return undefined;
  const parts = [base, path].map((part) => part.replaceAll(/^\/+|\/+$/g, '')).filter((part) => part !== '');
  return { method, path: `/${parts.join('/')}` };
}

/** The readers of all parameters, the first parameter's first; undefined when one cannot be read here. */
function inOrder(
  declared: readonly DeclaredParameter[],
  types: readonly unknown[],
  pipe: DtoValidationPipe,
): readonly Parameter[] | undefined {
  const length = Math.max(0, ...declared.map(({ index }) => index + 1));
  const ordered: Parameter[] = Array.from({ length }, () => () => undefined);
  for (const parameter of declared) {
    const type = types[parameter.index];
    const reader = readParameter(parameter, isClass(type) ? type : undefined, pipe);
    if (reader === undefined) return undefined;
    ordered[parameter.index] = reader;
  }
  return ordered;
}

/** The headers that a handler always sends; undefined when one is worked out anew for each answer. */
function fixedHeaders(handler: Handler): ReadonlyMap<string, string> | undefined {
  const declared: unknown = Reflect.getMetadata(HEADERS_METADATA, handler) ?? [];
  if (!Array.isArray(declared)) return undefined;
  const headers = new Map<string, string>();
  for (const entry of declared) {
    const { name, value } = Object(entry);
    if (typeof name !== 'string' || typeof value !== 'string') return undefined;
    headers.set(name, value);
  }
  return headers;
}

function typesOf(controller: object, name: string): readonly unknown[] {
  const types: unknown = Reflect.getMetadata(PARAMTYPES_METADATA, controller, name);
  return Array.isArray(types) ? types : [];
}

function isTold(about: object, key: string, method?: string): boolean {
  const told: unknown =
    method === undefined ? Reflect.getMetadata(key, about) : Reflect.getMetadata(key, about, method);
  return told !== undefined;
}

function isClass(value: unknown): value is Type<unknown> {
  return typeof value === 'function';
}

function isHandler(value: unknown): value is Handler {
  return typeof value === 'function';
}

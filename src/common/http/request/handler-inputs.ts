import { createParamDecorator, SetMetadata, type ExecutionContext } from '@nestjs/common';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/internal';
import { declaredParameters } from './declared-parameters.js';

/** What a route's handler takes from a request. */
export interface HandlerNeeds {
  /**
   * `required` for `@Body()` and `@RawBody()`: the body must be JSON. `optional` for `@Req()` and custom parameter
   * decorators without these: a JSON body is parsed, another one is left to the handler. `none` otherwise, and for
   * uploads, whose interceptor reads the body.
   */
  readonly body: 'required' | 'optional' | 'none';
  /** Whether interceptors of the route may read a body of `multipart/form-data`. */
  readonly multipart: boolean;
  /** Whether the handler has a `@RawBody()`. */
  readonly rawBody: boolean;
  /**
   * Names of its `@Query('name')` parameters; true when a `@Query()` object, `@Req()` or a custom decorator takes all of
   * them; 'ignored' when the query is not even parsed.
   */
  readonly query: ReadonlySet<string> | true | 'ignored';
}

const IGNORES_QUERY = 'longshore:ignores-query';

/** Accepts any query, well-formed or not: the page in the browser reads it. */
export function IgnoreQuery(): MethodDecorator {
  return SetMetadata(IGNORES_QUERY, true);
}

const headerFactories = new WeakSet<object>();

/**
 * As Nest's `createParamDecorator`, for a value that is read from neither the body nor the query: the route goes on to
 * refuse query parameters that it does not declare.
 */
export function createHeaderDecorator(
  read: (data: unknown, context: ExecutionContext) => unknown,
): () => ParameterDecorator {
  headerFactories.add(read);
  return createParamDecorator(read);
}

type Handler = object & { readonly name: string };
type ControllerClass = abstract new (...args: never[]) => unknown;

const known = new WeakMap<Handler, HandlerNeeds>();

/** What a handler takes, read from the decorators of its parameters at its first request. */
export function needsOf(controller: ControllerClass, handler: Handler): HandlerNeeds {
  const cached = known.get(handler);
  if (cached !== undefined) return cached;
  const needs = readNeeds(controller, handler);
  known.set(handler, needs);
  return needs;
}

function readNeeds(controller: ControllerClass, handler: Handler): HandlerNeeds {
  if (Reflect.hasMetadata(IGNORES_QUERY, handler)) {
    return { body: 'none', multipart: false, rawBody: false, query: 'ignored' };
  }
  const declared = declaredParameters(controller, methodName(controller, handler));
  const has = (...kinds: RouteParamtypes[]): boolean =>
    declared.some(({ kind }) => kind !== 'custom' && kinds.includes(kind));
  const queries = declared.filter(({ kind }) => kind === RouteParamtypes.QUERY).map(({ data }) => data);
  const takesRequest =
    has(RouteParamtypes.REQUEST) ||
    declared.some(({ kind, factory }) => kind === 'custom' && !headerFactories.has(Object(factory)));
  const takesAll = queries.length === 0 ? takesRequest : !queries.every((name) => typeof name === 'string');
  return {
    body: bodyNeed(has, takesRequest),
    multipart: [handler, controller].some((target) => Reflect.hasMetadata(INTERCEPTORS_METADATA, target)),
    rawBody: has(RouteParamtypes.RAW_BODY),
    query: takesAll ? true : new Set(queries.filter((name) => typeof name === 'string')),
  };
}

function bodyNeed(
  has: (...kinds: RouteParamtypes[]) => boolean,
  takesRequest: boolean,
): HandlerNeeds['body'] {
  if (has(RouteParamtypes.FILE, RouteParamtypes.FILES)) return 'none';
  if (has(RouteParamtypes.BODY, RouteParamtypes.RAW_BODY)) return 'required';
  return takesRequest ? 'optional' : 'none';
}

/** The name under which the controller holds the handler; a wrapping decorator may have changed its own. */
function methodName(controller: ControllerClass, handler: Handler): string {
  let prototype: unknown = controller.prototype;
  while (typeof prototype === 'object' && prototype !== null) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (value === handler) return name;
    }
    prototype = Object.getPrototypeOf(prototype);
  }
  return handler.name;
}

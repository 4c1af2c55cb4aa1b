import { createParamDecorator, SetMetadata, type ExecutionContext } from '@nestjs/common';
import {
  CUSTOM_ROUTE_ARGS_METADATA,
  INTERCEPTORS_METADATA,
  ROUTE_ARGS_METADATA,
} from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/internal';
import type { Request } from 'express';
import { UnsupportedMediaType } from '../../errors/domain-error.js';

/** What a route's handler takes from a request. */
export interface HandlerInputs {
  /**
   * `required` for `@Body()` and `@RawBody()`: the body must be JSON. `optional` for `@Req()` and custom parameter
   * decorators without these: a JSON body is parsed, another one is left to the handler. `none` otherwise, and for uploads,
   * whose interceptor reads the body. `streamed`: the handler reads the body, which may be of any size.
   */
  readonly body: 'required' | 'optional' | 'none' | 'streamed';
  /** Whether interceptors of the route may read a body of `multipart/form-data`. */
  readonly multipart: boolean;
  readonly rawBody: boolean;
  /**
   * Names of its `@Query('name')` parameters; true when a `@Query()` object, `@Req()` or a custom decorator takes all of
   * them; 'ignored' when the query is not even parsed.
   */
  readonly query: ReadonlySet<string> | true | 'ignored';
}

/** The decorator of a handler's parameter. */
export interface DeclaredParameter {
  readonly kind: RouteParamtypes | 'custom';
  readonly index: number;
  readonly data: unknown;
  readonly factory: unknown;
  readonly pipes: readonly unknown[];
}

type ControllerClass = abstract new (...args: never[]) => unknown;
type Handler = object & { readonly name: string };

const IGNORES_QUERY = 'longshore:ignores-query';
const STREAMS_BODY = 'longshore:streams-body';
const headerFactories = new WeakSet<object>();
const bodyFactories = new WeakSet<object>();
const cache = new WeakMap<Handler, HandlerInputs>();

/** Accepts any query, well-formed or not: the page in the browser reads it. */
export function IgnoreQuery(): MethodDecorator {
  return SetMetadata(IGNORES_QUERY, true);
}

/** The handler reads the body itself, of any size and type, as it arrives, and the query. */
export function StreamsBody(): MethodDecorator {
  return SetMetadata(STREAMS_BODY, true);
}

/**
 * As Nest's `createParamDecorator`, for a value that is read from neither the body nor the query: the route still refuses
 * query parameters that it does not declare.
 */
export function createHeaderDecorator(
  read: (data: unknown, context: ExecutionContext) => unknown,
): () => ParameterDecorator {
  headerFactories.add(read);
  return createParamDecorator(read);
}

/** As {@link createHeaderDecorator}, for what is read of a JSON body that may be absent: it counts as an empty object. */
export function createOptionalBodyDecorator(read: (body: unknown) => unknown): () => ParameterDecorator {
  const factory = (_: unknown, context: ExecutionContext): unknown => {
    const { body, headers } = context.switchToHttp().getRequest<Request<object, unknown, unknown>>();
    // It was not read, because it is not declared as JSON.
    if (body === undefined && Number(headers['content-length'] ?? 0) > 0) throw new UnsupportedMediaType();
    return read(body ?? {});
  };
  bodyFactories.add(factory);
  return createHeaderDecorator(factory);
}

/** True when the client asked for a response without a body (`Prefer: return=minimal`, RFC 7240). */
function prefersMinimal(header: string | string[] | undefined): boolean {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '');
  return text.split(/[,;]/).some((part) => /^\s*return\s*=\s*"?minimal"?\s*$/i.test(part));
}

/** Parameter: whether the client prefers a response without a body. */
export const PrefersMinimal = createHeaderDecorator((_: unknown, context: ExecutionContext): boolean =>
  prefersMinimal(context.switchToHttp().getRequest<Request>().headers['prefer']),
);

/** What a handler takes, read from the decorators of its parameters at its first request. */
export function inputsOf(controller: ControllerClass, handler: Handler): HandlerInputs {
  let inputs = cache.get(handler);
  if (inputs === undefined) {
    inputs = readInputs(controller, handler);
    cache.set(handler, inputs);
  }
  return inputs;
}

/** The decorated parameters of a controller's method, in no order. */
export function declaredParameters(controller: ControllerClass, method: string): DeclaredParameter[] {
  const metadata: unknown = Reflect.getMetadata(ROUTE_ARGS_METADATA, controller, method);
  return Object.entries(Object(metadata)).map(([key, value]) => {
    const { index, data, factory, pipes } = Object(value);
    return {
      kind: key.includes(CUSTOM_ROUTE_ARGS_METADATA) ? 'custom' : Number(key.split(':')[0]),
      index: Number(index),
      data,
      factory,
      pipes: Array.isArray(pipes) ? pipes : [],
    };
  });
}

function readInputs(controller: ControllerClass, handler: Handler): HandlerInputs {
  const isStreamed = Reflect.hasMetadata(STREAMS_BODY, handler);
  if (isStreamed || Reflect.hasMetadata(IGNORES_QUERY, handler)) {
    return { body: isStreamed ? 'streamed' : 'none', multipart: false, rawBody: false, query: 'ignored' };
  }
  const declared = declaredParameters(controller, methodName(controller, handler));
  const has = (...kinds: RouteParamtypes[]): boolean =>
    declared.some(({ kind }) => kind !== 'custom' && kinds.includes(kind));
  const queries = declared.filter(({ kind }) => kind === RouteParamtypes.QUERY).map(({ data }) => data);
  const takesRequest =
    has(RouteParamtypes.REQUEST) ||
    declared.some(({ kind, factory }) => kind === 'custom' && !headerFactories.has(Object(factory)));
  const takesAll = queries.length === 0 ? takesRequest : !queries.every((name) => typeof name === 'string');
  const mayTakeBody = takesRequest || declared.some(({ factory }) => bodyFactories.has(Object(factory)));
  let body: HandlerInputs['body'] = mayTakeBody ? 'optional' : 'none';
  if (has(RouteParamtypes.FILE, RouteParamtypes.FILES)) body = 'none';
  else if (has(RouteParamtypes.BODY, RouteParamtypes.RAW_BODY)) body = 'required';
  return {
    body,
    multipart: [handler, controller].some((target) => Reflect.hasMetadata(INTERCEPTORS_METADATA, target)),
    rawBody: has(RouteParamtypes.RAW_BODY),
    query: takesAll ? true : new Set(queries.filter((name) => typeof name === 'string')),
  };
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

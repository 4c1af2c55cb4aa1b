import { SetMetadata } from '@nestjs/common';
import { RouteParamtypes } from '@nestjs/common/internal';
import { declaredParameters } from './declared-parameters.js';

/** What a route's handler takes from a request. */
export interface HandlerNeeds {
  /** Whether it has a `@Body()`. */
  readonly body: boolean;
  /**
   * Names of its `@Query('name')` parameters, true when a `@Query()` DTO knows them, 'ignored' when the query is none of
   * the service's business.
   */
  readonly query: ReadonlySet<string> | true | 'ignored';
}

const IGNORES_QUERY = 'longshore:ignores-query';

/** The route answers the same whatever the query says: it is for a page in a browser, which reads it itself. */
export function IgnoreQuery(): MethodDecorator {
  return SetMetadata(IGNORES_QUERY, true);
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
  if (Reflect.hasMetadata(IGNORES_QUERY, handler)) return { body: false, query: 'ignored' };
  const declared = declaredParameters(controller, methodName(controller, handler));
  const queries = declared.filter(({ kind }) => kind === RouteParamtypes.QUERY).map(({ data }) => data);
  return {
    body: declared.some(({ kind }) => kind === RouteParamtypes.BODY),
    query: queries.every((name) => typeof name === 'string') ? new Set(queries) : true,
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

import { SetMetadata } from '@nestjs/common';
import { ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/internal';

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
  const metadata: unknown = Reflect.getMetadata(
    ROUTE_ARGS_METADATA,
    controller,
    methodName(controller, handler),
  );
  const names = new Set<string>();
  let body = false;
  let wholeQuery = false;
  for (const [key, parameter] of Object.entries(Object(metadata))) {
    const [type] = key.split(':');
    const data: unknown = Object(parameter).data;
    if (type === String(RouteParamtypes.BODY)) body = true;
    else if (type === String(RouteParamtypes.QUERY)) {
      if (typeof data === 'string') names.add(data);
      else wholeQuery = true;
    }
  }
  return { body, query: wholeQuery || names };
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

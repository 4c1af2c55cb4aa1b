import { CUSTOM_ROUTE_ARGS_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import type { RouteParamtypes } from '@nestjs/common/internal';

/** What the decorator of a parameter says. */
export interface DeclaredParameter {
  readonly kind: RouteParamtypes | 'custom';
  readonly index: number;
  readonly data: unknown;
  readonly factory: unknown;
  readonly pipes: readonly unknown[];
}

/** The parameters of a controller's method that have a decorator, in no order. */
export function declaredParameters(
  controller: abstract new (...args: never[]) => unknown,
  method: string,
): DeclaredParameter[] {
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

import type { ArgumentMetadata, Type } from '@nestjs/common';
import { RouteParamtypes } from '@nestjs/common/internal';
import type { DeclaredParameter } from '../declared-parameters.js';
import type { DtoValidationPipe } from '../validation.pipe.js';
import type { RouteContext } from './route-context.js';

/** How a handler's parameter gets its value. @throws InvalidRequest when the body or the query does not fit */
export type Parameter = (context: RouteContext) => unknown;

/** What a parameter is read with. */
interface Means {
  /** What the decorator was given: the name of one value among those of its kind. */
  readonly name: string | undefined;
  /** The declared class of the parameter. */
  readonly metatype: Type<unknown> | undefined;
  readonly pipe: DtoValidationPipe;
}

/** The kinds that can be read here; undefined when one of them is used in a way that cannot. */
const READERS: Readonly<Partial<Record<RouteParamtypes, (means: Means) => Parameter | undefined>>> = {
  [RouteParamtypes.REQUEST]:
    () =>
    ({ request }) =>
      request,
  [RouteParamtypes.RESPONSE]:
    () =>
    ({ response }) =>
      response,
  [RouteParamtypes.PARAM]: ({ name }) =>
    name === undefined ? ({ request }) => request.params : ({ request }) => request.params[name],
  [RouteParamtypes.HEADERS]: ({ name }) =>
    name === undefined
      ? ({ request }) => request.headers
      : ({ request }) => request.headers[name.toLowerCase()],
  [RouteParamtypes.BODY]: ({ name, metatype, pipe }) => {
    const argument: ArgumentMetadata = { type: 'body', metatype };
    return name === undefined ? ({ request }) => pipe.transform(request.body, argument) : undefined;
  },
  [RouteParamtypes.QUERY]: ({ name, metatype, pipe }) => {
    const argument: ArgumentMetadata = { type: 'query', metatype, data: name };
    return name === undefined
      ? ({ request }) => pipe.transform(request.query, argument)
      : ({ request }) => pipe.transform(request.query[name], argument);
  },
};

/** How the parameter gets its value; undefined when only Nest's router can tell. */
export function readParameter(
  { kind, data, factory, pipes }: DeclaredParameter,
  metatype: Type<unknown> | undefined,
  pipe: DtoValidationPipe,
): Parameter | undefined {
  if (pipes.length > 0) return undefined;
  if (kind === 'custom') {
    if (typeof factory !== 'function') return undefined;
    return (context) => Reflect.apply(factory, undefined, [data, context]);
  }
  return READERS[kind]?.({ name: typeof data === 'string' ? data : undefined, metatype, pipe });
}

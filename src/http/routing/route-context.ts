import type { Type } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import type { Request, Response } from 'express';

/** A method of a controller that answers requests. */
export type Handler = (...args: unknown[]) => unknown;

type HttpHost = ReturnType<ExecutionContextHost['switchToHttp']>;

/** What guards, parameters and the error filter are told of a request: what Nest would tell them. */
export class RouteContext extends ExecutionContextHost {
  #http: HttpHost | undefined;

  constructor(
    readonly request: Request,
    readonly response: Response,
    controller: Type<unknown>,
    handler: Handler,
  ) {
    super([request, response, unreachable], controller, handler);
  }

  override switchToHttp(): HttpHost {
    return (this.#http ??= super.switchToHttp());
  }
}

function unreachable(): never {
  throw new TypeError('there is nothing behind a route to go on to');
}

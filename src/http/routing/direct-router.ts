import {
  ForbiddenException,
  Inject,
  Injectable,
  Logger,
  type CanActivate,
  type OnModuleInit,
} from '@nestjs/common';
import {
  APP_FILTER,
  APP_GUARD,
  APP_INTERCEPTOR,
  APP_PIPE,
  HttpAdapterHost,
  MetadataScanner,
  ModulesContainer,
} from '@nestjs/core';
import type { Request, Response } from 'express';
import { isObservable, lastValueFrom } from 'rxjs';
import { ErrorFilter } from '../error.filter.js';
import { FastExpressAdapter } from '../fast-express.adapter.js';
import { DtoValidationPipe } from '../validation.pipe.js';
import { readDirectRoute, type DirectRoute } from './direct-route.js';
import { RouteContext } from './route-context.js';
import { RouteTable } from './route-table.js';

/** Injection token of the guards that stand before every route, in order. */
export const ROUTE_GUARDS = Symbol('ROUTE_GUARDS');

/** What the application binds for all its routes. */
const BOUND = { [APP_PIPE]: 1, [APP_FILTER]: 1, [APP_INTERCEPTOR]: 0 };

/**
 * Carries requests to the controllers by the shortest way: the same guards, parameters, handlers and error filter as by
 * Nest's router, without what that one does for features that these routes do not use. A route with such a feature, and
 * everything that is no route, is left to Nest and Express; so is all of it when a module brings interceptors,
 * middleware, or guards, pipes and filters of its own for every route.
 */
@Injectable()
export class DirectRouter implements OnModuleInit {
  readonly #routes = new RouteTable<DirectRoute>();
  readonly #logger = new Logger('Http');

  constructor(
    @Inject(ROUTE_GUARDS) private readonly guards: readonly CanActivate[],
    private readonly pipe: DtoValidationPipe,
    private readonly filter: ErrorFilter,
    private readonly modules: ModulesContainer,
    private readonly host: HttpAdapterHost,
  ) {}

  onModuleInit(): void {
    const { httpAdapter } = this.host;
    if (!(httpAdapter instanceof FastExpressAdapter)) return;
    const foreign = this.#foreignFeature();
    if (foreign !== undefined) {
      this.#logger.warn(`requests take the longer way through Nest's router: ${foreign}`);
      return;
    }
    this.#readRoutes();
    httpAdapter.offerFirst((request, response) => this.#take(request, response, httpAdapter));
  }

  #readRoutes(): void {
    const scanner = new MetadataScanner();
    for (const { controllers } of this.modules.values()) {
      for (const wrapper of controllers.values()) {
        const controller: unknown = wrapper.instance;
        if (typeof controller !== 'object' || controller === null || !wrapper.isDependencyTreeStatic())
          continue;
        for (const name of scanner.getAllMethodNames(Object.getPrototypeOf(controller))) {
          const route = readDirectRoute(controller, name, this.pipe);
          if (route !== undefined) this.#routes.add(route.method, route.path, route);
        }
      }
    }
  }

  /** What a module brings for all routes that only Nest's router does. */
  #foreignFeature(): string | undefined {
    const bound = new Map<string, number>();
    for (const { instance, name, providers } of this.modules.values()) {
      if (typeof Reflect.get(Object(instance), 'configure') === 'function')
        return `${name} brings middleware`;
      for (const { token } of providers.values()) {
        const [kind = ''] = typeof token === 'string' ? token.split(' ') : [];
        bound.set(kind, (bound.get(kind) ?? 0) + 1);
      }
    }
    const usual = { ...BOUND, [APP_GUARD]: this.guards.length };
    const other = Object.entries(usual).find(([kind, count]) => (bound.get(kind) ?? 0) !== count);
    return other && `a module brings ${other[0]}`;
  }

  #take(request: Request, response: Response, adapter: FastExpressAdapter): boolean {
    const { method, url } = request;
    const match = this.#routes.find(method, url);
    if (match === undefined) return false;
    // Of these Express leaves the same on a request that it routes.
    Object.assign(request, { params: match.params, res: response, route: match.route });
    void this.#answer(match.route, request, response, adapter);
    return true;
  }

  async #answer(
    route: DirectRoute,
    request: Request,
    response: Response,
    adapter: FastExpressAdapter,
  ): Promise<void> {
    const context = new RouteContext(request, response, route.controller, route.handler);
    try {
      for (const guard of this.guards) {
        const verdict = guard.canActivate(context);
        const isAllowed = typeof verdict === 'boolean' ? verdict : await settle(verdict);
        if (!isAllowed) throw new ForbiddenException();
      }
      response.statusCode = route.status;
      for (const [name, value] of route.headers) response.setHeader(name, value);
      const result = await route.call(context);
      if (!route.answersItself)
        adapter.reply(response, isObservable(result) ? await lastValueFrom(result) : result);
    } catch (error) {
      // oxlint-disable-next-line promise/valid-params -- this is no promise but an exception filter
      this.filter.catch(error, context);
    }
  }
}

async function settle(verdict: ReturnType<CanActivate['canActivate']>): Promise<boolean> {
  return isObservable(verdict) ? await lastValueFrom(verdict) : await verdict;
}

import assert from 'node:assert/strict';
import {
  BadRequestException,
  Catch,
  Controller,
  Get,
  Injectable,
  Module,
  Param,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  Version,
  type ArgumentMetadata,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type MiddlewareConsumer,
  type NestInterceptor,
  type NestMiddleware,
  type NestModule,
  type PipeTransform,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { NextFunction, Request, Response } from 'express';
import { map, type Observable } from 'rxjs';
import { AllowScopes } from '../../../src/auth/access.js';
import { DomainError, NotFound } from '../../../src/common/errors/domain-error.js';
import { RunsController } from '../../../src/runs/http/runs.controller.js';
import type { TestAnswer } from './test-app.js';

/** A guard that refuses everybody. */
@Injectable()
export class Deny implements CanActivate {
  canActivate(): boolean {
    return false;
  }
}

@Injectable()
class Stamp implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler<object>): Observable<object> {
    return next.handle().pipe(map((answer) => ({ ...answer, stamped: true })));
  }
}

@Injectable()
class Refuse implements PipeTransform {
  transform(value: unknown, { type }: ArgumentMetadata): unknown {
    if (type === 'param') throw new BadRequestException(`piped ${String(value)}`);
    return value;
  }
}

@Catch(DomainError)
class Teapot implements ExceptionFilter {
  catch(error: DomainError, host: ArgumentsHost): void {
    host
      .switchToHttp()
      .getResponse<Response>()
      .status(418)
      .json({ detail: `filtered ${error.kind}` });
  }
}

@Injectable()
class Mark implements NestMiddleware {
  use(request: Request, response: Response, next: NextFunction): void {
    mark(request, response, next);
  }
}

function mark({ query }: Request, response: Response, next: NextFunction): void {
  response.setHeader('X-Marked', JSON.stringify(query));
  next();
}

/** A controller of another team, with the same three cases as ours. */
@Controller('budgets')
@AllowScopes('client')
class BudgetsController {
  @Get()
  list(): object {
    return { budgets: [] };
  }

  @Get(':id')
  read(@Param('id') _id: string): never {
    throw new NotFound('No such budget');
  }
}

@Controller('newer')
@AllowScopes('client')
class NewerController {
  @Get()
  @Version('2')
  newer(): object {
    return { version: 2 };
  }
}

/** A module of another team. */
@Module({ controllers: [BudgetsController, NewerController] })
export class BudgetsModule {}

@Module({ providers: [{ provide: APP_GUARD, useClass: Deny }] })
class GuardModule {}

@Module({ providers: [{ provide: APP_INTERCEPTOR, useClass: Stamp }] })
class InterceptorModule {}

@Module({ providers: [{ provide: APP_PIPE, useClass: Refuse }] })
class PipeModule {}

@Module({ providers: [{ provide: APP_FILTER, useClass: Teapot }] })
class FilterModule {}

@Module({})
class MiddlewareModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(Mark).forRoutes('{*path}');
  }
}

/** A route that answers an object, and one below it that fails with a domain error. */
export interface Place {
  readonly owner: string;
  readonly path: string;
  readonly missing: string;
  readonly controller: Type;
  /** The handlers of the two. */
  readonly handlers: readonly [answers: string, fails: string];
}

export const PLACES: readonly Place[] = [
  {
    owner: 'our own',
    path: '/runs',
    missing: '/runs/00000000-0000-4000-8000-000000000000',
    controller: RunsController,
    handlers: ['listRuns', 'getRun'],
  },
  {
    owner: "an extension's",
    path: '/budgets',
    missing: '/budgets/7',
    controller: BudgetsController,
    handlers: ['list', 'read'],
  },
];

/** Sends a GET request, by an admin unless the key is given. */
export type Ask = (path: string, key?: string | null) => Promise<TestAnswer>;

/** A feature of Nest, the ways to bind it, and what shows that it has an effect. */
export interface Feature {
  readonly name: string;
  readonly global: (app: NestExpressApplication) => unknown;
  readonly module: Type;
  readonly route?: MethodDecorator & ClassDecorator;
  readonly check: (ask: Ask, place: Place) => Promise<void>;
}

export const FEATURES: readonly Feature[] = [
  {
    name: 'a guard',
    global: (app) => app.useGlobalGuards(new Deny()),
    module: GuardModule,
    route: UseGuards(Deny),
    check: async (ask, { path }) => {
      const { status, body } = await ask(path);
      assert.deepEqual([status, body], [403, { detail: 'Forbidden resource' }]);
      assert.equal((await ask(path, null)).status, 401, 'authentication comes first');
    },
  },
  {
    name: 'an interceptor',
    global: (app) => app.useGlobalInterceptors(new Stamp()),
    module: InterceptorModule,
    route: UseInterceptors(Stamp),
    check: async (ask, { path }) => {
      const { status, body } = await ask(path);
      assert.deepEqual([status, body.stamped], [200, true]);
    },
  },
  {
    name: 'a pipe',
    global: (app) => app.useGlobalPipes(new Refuse()),
    module: PipeModule,
    route: UsePipes(Refuse),
    check: async (ask, { missing }) => {
      const { status, body } = await ask(missing);
      assert.deepEqual([status, body], [400, { detail: `piped ${missing.split('/').at(-1)}` }]);
    },
  },
  {
    name: 'an exception filter',
    global: (app) => app.useGlobalFilters(new Teapot()),
    module: FilterModule,
    route: UseFilters(Teapot),
    check: async (ask, { missing }) => {
      const { status, body } = await ask(missing);
      assert.deepEqual([status, body], [418, { detail: 'filtered not-found' }]);
    },
  },
  {
    name: 'middleware',
    global: (app) => app.use(mark),
    module: MiddlewareModule,
    check: async (ask, { path }) => {
      assert.equal((await ask(path)).headers.get('x-marked'), '{}');
      assert.equal((await ask(`${path}?limit=5&x=a%20b`)).headers.get('x-marked'), '{"limit":"5","x":"a b"}');
      assert.equal((await ask(`${path}?x=1&x=2`)).status, 400, 'a malformed query');
    },
  },
];

import type { ServerOptions } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Body,
  Controller,
  Delete,
  Get,
  Global,
  HttpCode,
  Injectable,
  Module,
  Param,
  Post,
  Query,
  Res,
} from '@nestjs/common';
import type { CanActivate, ExecutionContext, INestApplication } from '@nestjs/common';
import { APP_GUARD, NestFactory } from '@nestjs/core';
import { Registry } from 'prom-client';
import { Refusals } from '../../../src/common/quotas/quota.js';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import type { Request, Response } from 'express';
import { DomainError, InvalidRequest } from '../../../src/common/errors/domain-error.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import {
  AllowUnknownFields,
  IsJsonInteger,
  IsText,
  JsonObject,
  OptionalField,
} from '../../../src/common/http/validation/dto-decorators.js';
import { QueryInteger, QueryString } from '../../../src/common/http/validation/query-decorators.js';
import { FastExpressAdapter } from '../../../src/common/http/server/fast-express.adapter.js';
import { HttpModule } from '../../../src/common/http/http.module.js';
import { requestIdOf } from '../../../src/common/http/request/request-id.js';
import { RequestGuard } from '../../../src/common/http/request/request.guard.js';
import { SERVER_LIMITS } from '../../../src/common/http/server/server-limits.js';
import { DatabaseUnreachable } from '../../../src/database/failover/unavailable.js';
import type { Budgets } from '../../../src/config/budgets.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { Settings } from '../../../src/config/settings.js';

export const MAX_BODY_BYTES = 4096;

class EchoDto {
  @IsText({ min: 1, max: 10 }) image: string;
  @OptionalField() @IsJsonInteger({ min: 0, max: 100 }) priority?: number;
  @OptionalField() @JsonObject() inputs?: Record<string, unknown>;
}

@AllowUnknownFields()
class BeatDto {
  @IsText() id: string;
}

class ListDto {
  @IsOptional() @QueryInteger({ min: 1, max: 100 }) limit?: number;
  @IsOptional() @QueryString() image?: string;
  @IsOptional() @QueryInteger() 'created[gte]'?: number;
}

class Unauthenticated extends DomainError {
  readonly kind = 'unauthenticated';
}

@Injectable()
class DenyGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (context.switchToHttp().getRequest<Request>().headers['x-deny'] !== undefined) {
      throw new Unauthenticated('Missing API key');
    }
    return true;
  }
}

/** What the handlers of the test application did, and what they wait for. */
export class EdgeState {
  /** Counts every handler that ran. */
  calls = 0;
  readonly errors: unknown[] = [];
  release: () => void = () => {};
  /** How many requests wait for `release`. */
  waiting = 0;
}

@Controller()
class EdgeController {
  constructor(private readonly state: EdgeState) {}

  @Post('echo')
  echo(@Body() body: EchoDto): object {
    this.state.calls += 1;
    return { ...body };
  }

  @Post('beat')
  @HttpCode(200)
  beat(@Body() { id }: BeatDto): object {
    this.state.calls += 1;
    return { id };
  }

  @Get('items/:id')
  item(@Param('id') id: string, @Res({ passthrough: true }) { req }: Response): object {
    return { id, requestId: requestIdOf(req) };
  }

  @Delete('items/:id')
  @HttpCode(204)
  remove(@Param('id') _id: string): void {
    this.state.calls += 1;
  }

  @Post('items/:id/act')
  @HttpCode(200)
  act(@Param('id') id: string): object {
    this.state.calls += 1;
    return { id };
  }

  @Get('list')
  list(@Query() query: ListDto): object {
    return { ...query };
  }

  @Get('large')
  large(@Query('bytes') bytes: string): object {
    return { text: 'x'.repeat(Number(bytes)) };
  }

  @Get('named')
  named(@Query('x') x?: string): object {
    return { x };
  }

  @Get('fault')
  fault(): never {
    throw new Error('select secret from keys in /srv/secret');
  }

  @Get('away')
  away(): never {
    throw new DatabaseUnreachable('connect ECONNREFUSED 10.0.0.1');
  }

  @Get('refused')
  refused(): never {
    throw new InvalidRequest('Refused', ['one', 'two']);
  }

  @Get('half')
  async half(@Res() response: Response): Promise<never> {
    await new Promise((resolve) => {
      response.write('half', resolve);
    });
    throw new Error('too late');
  }

  @Post('slow')
  @HttpCode(200)
  async slow(): Promise<object> {
    this.state.calls += 1;
    this.state.waiting += 1;
    await new Promise<void>((resolve) => {
      const before = this.state.release;
      this.state.release = () => {
        before();
        resolve();
      };
    });
    this.state.waiting -= 1;
    return { slow: true };
  }
}

/** A running application that consists of the HTTP edge and a few handlers. */
export interface EdgeApp {
  readonly app: INestApplication;
  readonly port: number;
  readonly url: string;
  readonly state: EdgeState;
  readonly drain: Drain;
}

function silent(): void {
  // The test application's own log is of no interest.
}

/** Starts the application on a free port. */
export async function startEdge(
  limits: ServerOptions = {},
  budgets: Partial<Budgets> = {},
): Promise<EdgeApp> {
  const state = new EdgeState();
  const settings = { ...loadSettings([], {}), maxBodyBytes: MAX_BODY_BYTES, ...budgets };
  @Global()
  @Module({
    providers: [
      { provide: Settings, useValue: settings },
      { provide: Registry, useValue: new Registry() },
      Refusals,
    ],
    exports: [Settings, Refusals],
  })
  class EdgeSettingsModule {}

  @Module({
    imports: [EdgeSettingsModule, HttpModule],
    controllers: [EdgeController],
    providers: [
      { provide: EdgeState, useValue: state },
      { provide: APP_GUARD, useClass: DenyGuard },
      { provide: APP_GUARD, useExisting: RequestGuard },
    ],
  })
  class EdgeModule {}

  const logger = { log: silent, warn: silent, error: (error: unknown): number => state.errors.push(error) };
  const app = await NestFactory.create(
    EdgeModule,
    new FastExpressAdapter(settings, null, { ...SERVER_LIMITS, ...limits }),
    {
      logger,
      bodyParser: false,
      abortOnError: false,
    },
  );
  SwaggerModule.setup('docs', app, () => SwaggerModule.createDocument(app, new DocumentBuilder().build()));
  const drain = app.get(Drain);
  drain.attach(app.getHttpServer());
  await app.listen(0, '127.0.0.1');
  const { port }: AddressInfo = app.getHttpServer().address();
  return { app, port, url: `http://127.0.0.1:${port}`, state, drain };
}

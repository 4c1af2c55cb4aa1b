import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'vitest';
import { Controller, Get, Module, Post, type Type } from '@nestjs/common';
import { DiscoveryModule, NestFactory } from '@nestjs/core';
import { AccessCoverage } from './access.js';
import { AllowAnyKey, AllowScopes, Public } from './access.js';

@Controller('declared')
class DeclaredController {
  @Get()
  @AllowScopes('client')
  get(): void {}

  @Post()
  @Public()
  post(): void {}

  helper(): void {}
}

@AllowAnyKey()
@Controller('whole')
class WholeController {
  @Get()
  get(): void {}
}

@Controller('forgotten')
class ForgottenController {
  @Get()
  @AllowScopes('worker')
  get(): void {}

  @Get('more')
  more(): void {}
}

@Controller('inherited')
class InheritingController extends ForgottenController {}

/** Starts an application with nothing but the controllers and the check. */
async function boot(...controllers: Type[]): Promise<void> {
  @Module({ imports: [DiscoveryModule], controllers, providers: [AccessCoverage] })
  class Tiny {}
  const app = await NestFactory.createApplicationContext(Tiny, { logger: false, abortOnError: false });
  await app.close();
}

test('the service starts when every route says who may call it, itself or by its controller', async () => {
  await boot(DeclaredController, WholeController);
});

test('the service does not start with a route that does not say so, and names it', async () => {
  await assert.rejects(boot(DeclaredController, ForgottenController), {
    message: 'routes without a declared access: ForgottenController.more',
  });
});

test('a route that a controller inherits needs a declared access too', async () => {
  await assert.rejects(boot(InheritingController), {
    message: 'routes without a declared access: InheritingController.more',
  });
});

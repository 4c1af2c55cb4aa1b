import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import {
  Catch,
  HttpException,
  Injectable,
  Module,
  VersioningType,
  type ArgumentsHost,
  type ExceptionFilter,
  type Type,
} from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Response } from 'express';
import {
  BudgetsModule,
  Deny,
  FEATURES,
  PLACES,
  type Ask,
  type Place,
} from '../../support/app/nest-features.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

describe('features of Nest have an effect', () => {
  const database = useTestDatabase();

  const start = (extensions: readonly Type[], configure?: (app: NestExpressApplication) => unknown) =>
    startTestApp({
      database,
      extensions: [BudgetsModule, ...extensions],
      configure: (app) => void configure?.(app),
    });

  for (const { name, global, module, route, check } of FEATURES) {
    test(`${name} that is added to the application`, async () => inBoth(await start([], global), check));
    test(`${name} that a module brings`, async () => inBoth(await start([module]), check));
    if (route === undefined) continue;
    test(`${name} of a route`, async () => {
      const undo = PLACES.flatMap(({ controller, handlers }) =>
        handlers.map((handler) => decorate(controller, handler, route)),
      );
      const app = await start([]).finally(() => {
        for (const restore of undo) restore();
      });
      await inBoth(app, check);
    });
  }

  test('CORS', async () => {
    const app = await start([], (nest) => nest.enableCors({ origin: 'https://dashboard.example' }));
    try {
      for (const { path } of PLACES) {
        const headers = { Origin: 'https://dashboard.example', 'Access-Control-Request-Method': 'POST' };
        const preflight = await app.send('OPTIONS', path, { key: null, headers });
        const answer = await app.send('GET', path, { headers });
        assert.deepEqual([preflight.status, answer.status], [204, 200]);
        for (const answered of [preflight, answer]) {
          assert.equal(answered.headers.get('access-control-allow-origin'), 'https://dashboard.example');
        }
      }
    } finally {
      await app.close();
    }
  });

  test('a global prefix, with the guards of the application behind it', async () => {
    const app = await start([], (nest) => nest.setGlobalPrefix('api'));
    try {
      for (const { path, missing } of PLACES) {
        assert.equal((await app.send('GET', `/api${path}`)).status, 200);
        assert.equal((await app.send('GET', `/api${path}`, { key: null })).status, 401);
        assert.equal((await app.send('GET', `/api${missing}`)).status, 404);
        for (const unknown of [path, `/api${path}/x/y`, '/api', '/apiary']) {
          const { status, body } = await app.send('GET', unknown);
          assert.deepEqual([status, body], [404, { detail: 'Not found' }], unknown);
        }
      }
      const paths = Object.keys((await app.send('GET', '/docs-json', { key: null })).body.paths);
      assert.ok(paths.includes('/api/runs') && paths.includes('/api/budgets/{id}'), paths.join());
      assert.equal((await app.send('GET', '/docs', { key: null })).status, 200);
      assert.equal((await app.send('GET', '/api/ui/', { key: null })).status, 404);
      assert.ok(app.logged.some(({ msg }) => /^the dashboard answers 404: .*prefix/.test(String(msg))));
      const { text } = await app.send('GET', '/api/metrics');
      assert.match(
        text,
        /longshore_http_requests_total\{method="GET",route="\/api\/budgets",status="200"\} 1/,
      );
    } finally {
      await app.close();
    }
    const guarded = await start([], (nest) => nest.setGlobalPrefix('api').useGlobalGuards(new Deny()));
    await inBoth(guarded, async (ask, { path }) => {
      assert.deepEqual([(await ask(`/api${path}`)).status, (await ask(path)).status], [403, 404]);
    });
  });

  test('versions in the path', async () => {
    const app = await start([], (nest) =>
      nest.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' }),
    );
    await inBoth(app, async (ask, { path }) => {
      assert.deepEqual([(await ask(`/v1${path}`)).status, (await ask(path)).status], [200, 404]);
      assert.deepEqual((await ask('/v2/newer')).body, { version: 2 });
      const paths = Object.keys((await ask('/docs-json')).body.paths);
      assert.ok(paths.includes('/v1/runs') && paths.includes('/v2/newer'), paths.join());
    });
  });

  test('lifecycle and shutdown hooks, in their order', async () => {
    const called: string[] = [];
    const hook = (name: string) => (): void => void called.push(name);
    @Injectable()
    class Hooks {
      onModuleInit = hook('init');
      onApplicationBootstrap = hook('bootstrap');
      onModuleDestroy = hook('destroy');
      beforeApplicationShutdown = hook('before shutdown');
      onApplicationShutdown = hook('shutdown');
    }
    @Module({ providers: [Hooks] })
    class HooksModule {}
    const app = await start([HooksModule]);
    assert.deepEqual(called.splice(0), ['init', 'bootstrap']);
    await app.close();
    assert.deepEqual(called, ['destroy', 'before shutdown', 'shutdown']);
  });

  test("a filter for Nest's exceptions sees unknown routes", async () => {
    @Catch(HttpException)
    class Told implements ExceptionFilter {
      catch(error: HttpException, host: ArgumentsHost): void {
        host.switchToHttp().getResponse<Response>().status(error.getStatus()).json({ told: error.message });
      }
    }
    const app = await start([], (nest) => nest.useGlobalFilters(new Told()));
    await inBoth(app, async (ask, { path }) => {
      const { status, body } = await ask(`${path}/x/y/z`);
      assert.deepEqual([status, body], [404, { told: 'Not found' }]);
    });
  });
});

/** Runs a check against both places of an application. */
async function inBoth(app: TestApp, check: (ask: Ask, place: Place) => Promise<void>): Promise<void> {
  try {
    for (const place of PLACES)
      await check((path, key) => app.send('GET', path, key === null ? { key } : {}), place);
  } finally {
    await app.close();
  }
}

/** Decorates a handler until the returned function is called; Nest reads the metadata when the application starts. */
function decorate(controller: Type, handler: string, decorator: MethodDecorator): () => void {
  const descriptor = Object.getOwnPropertyDescriptor(controller.prototype, handler);
  assert.ok(descriptor, `${controller.name}.${handler}`);
  const target: object = descriptor.value;
  const known = new Map(
    Reflect.getMetadataKeys(target).map((key) => [key, Reflect.getMetadata(key, target)]),
  );
  decorator(controller.prototype, handler, descriptor);
  return () => {
    for (const key of Reflect.getMetadataKeys(target)) {
      if (known.has(key)) Reflect.defineMetadata(key, known.get(key), target);
      else Reflect.deleteMetadata(key, target);
    }
  };
}

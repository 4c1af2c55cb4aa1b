import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  Controller,
  Get,
  Header,
  HttpCode,
  Injectable,
  Module,
  Param,
  ParseIntPipe,
  Post,
  Redirect,
  Res,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import type { CallHandler, ExecutionContext, NestInterceptor, Type } from '@nestjs/common';
import { APP_INTERCEPTOR, NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Response } from 'express';
import { map, of, type Observable } from 'rxjs';
import { FastExpressAdapter, type FirstChoice } from '../../src/http/fast-express.adapter.js';
import { HttpModule } from '../../src/http/http.module.js';

/** Says in its answer that it was there. */
@Injectable()
class Stamp implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((answer: object) => ({ ...answer, stamped: true })));
  }
}

@Controller('direct')
class DirectController {
  @Get(':id')
  @Header('X-Fixed', 'yes')
  plain(@Param('id') id: string): object {
    return { id };
  }

  @Post()
  create(): Promise<object> {
    return Promise.resolve({ made: true });
  }

  @Post('late')
  @HttpCode(200)
  late(@Res({ passthrough: true }) response: Response): undefined {
    response.status(204);
    return undefined;
  }

  @Post('own')
  own(@Res() response: Response): void {
    response.status(202).json({ own: true });
  }

  @Post('observable')
  observable(): Observable<object> {
    return of({ first: 1 }, { last: 2 });
  }

  @Post('file')
  file(): StreamableFile {
    return new StreamableFile(Buffer.from('text'), { type: 'text/plain' });
  }
}

@Controller('longer')
class LongerController {
  @Get('stamped')
  @UseInterceptors(Stamp)
  stamped(): object {
    return {};
  }

  @Get('number/:n')
  number(@Param('n', ParseIntPipe) n: number): object {
    return { n, type: typeof n };
  }

  @Get('moved')
  @Redirect('/direct/1', 307)
  moved(): void {}
}

/** Notes what was answered at once. */
class WatchedAdapter extends FastExpressAdapter {
  readonly atOnce: string[] = [];

  override offerFirst(choice: FirstChoice): void {
    super.offerFirst((request, response) => {
      const isTaken = choice(request, response);
      if (isTaken) this.atOnce.push(`${request.method} ${request.url}`);
      return isTaken;
    });
  }
}

interface Started {
  readonly app: NestExpressApplication;
  readonly adapter: WatchedAdapter;
  readonly ask: (method: string, path: string) => Promise<globalThis.Response>;
}

async function start(...more: Type[]): Promise<Started> {
  @Module({
    imports: [HttpModule.forRoot({ guards: [], useFactory: () => ({ maxBodyBytes: 100 }) }), ...more],
    controllers: [DirectController, LongerController],
  })
  class App {}
  const adapter = new WatchedAdapter();
  const app = await NestFactory.create<NestExpressApplication>(App, adapter, {
    bodyParser: false,
    logger: false,
  });
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return { app, adapter, ask: (method, path) => fetch(url + path, { method, redirect: 'manual' }) };
}

describe('the short way to a route', () => {
  let started: Started;

  before(async () => {
    started = await start();
  });
  after(() => started.app.close());

  const taken = async (method: string, path: string): Promise<boolean> => {
    started.adapter.atOnce.length = 0;
    await (await started.ask(method, path)).arrayBuffer();
    return started.adapter.atOnce.length > 0;
  };

  test('is taken by plain routes, and gives them their status, headers and values', async () => {
    const answer = await started.ask('GET', '/direct/a%20b');
    assert.deepEqual([answer.status, await answer.json()], [200, { id: 'a b' }]);
    assert.equal(answer.headers.get('x-fixed'), 'yes');
    assert.match(answer.headers.get('x-request-id') ?? '', /^[\w-]{36}$/);
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
    assert.equal((await started.ask('POST', '/direct')).status, 201);
    assert.ok(await taken('GET', '/direct/1'));
  });

  test('answers what a handler sends itself, an empty answer, a stream, and the last of several values', async () => {
    const own = await started.ask('POST', '/direct/own');
    assert.deepEqual([own.status, await own.json()], [202, { own: true }]);
    const late = await started.ask('POST', '/direct/late');
    assert.deepEqual([late.status, await late.text(), late.headers.get('content-length')], [204, '', null]);
    const file = await started.ask('POST', '/direct/file');
    assert.deepEqual([file.headers.get('content-type'), await file.text()], ['text/plain', 'text']);
    assert.deepEqual(await (await started.ask('POST', '/direct/observable')).json(), { last: 2 });
    for (const path of ['own', 'late', 'file', 'observable'])
      assert.ok(await taken('POST', `/direct/${path}`));
  });

  test('leaves to Nest what only Nest does', async () => {
    assert.deepEqual(await (await started.ask('GET', '/longer/stamped')).json(), { stamped: true });
    assert.deepEqual(await (await started.ask('GET', '/longer/number/7')).json(), { n: 7, type: 'number' });
    assert.equal((await started.ask('GET', '/longer/number/x')).status, 400);
    const moved = await started.ask('GET', '/longer/moved');
    assert.deepEqual([moved.status, moved.headers.get('location')], [307, '/direct/1']);
    for (const path of ['stamped', 'number/7', 'moved']) assert.ok(!(await taken('GET', `/longer/${path}`)));
  });

  test('leaves HEAD, unknown routes and paths that cannot be decoded to Express', async () => {
    assert.deepEqual([(await started.ask('HEAD', '/direct/1')).status, started.adapter.atOnce], [200, []]);
    for (const path of ['/direct/1/2', '/Direct/1', '/direct/%E0%A4%A']) {
      const answer = await started.ask('GET', path);
      assert.deepEqual([answer.status, await answer.json()], [404, { detail: 'Not found' }], path);
    }
  });

  test('is left by everything when a module brings an interceptor or middleware for all routes', async () => {
    @Module({ providers: [{ provide: APP_INTERCEPTOR, useClass: Stamp }] })
    class StampingModule {}
    @Module({})
    class MiddlewareModule {
      configure(): void {}
    }
    for (const foreign of [StampingModule, MiddlewareModule]) {
      const { app, adapter, ask } = await start(foreign);
      try {
        const answer: unknown = await (await ask('GET', '/direct/1')).json();
        assert.deepEqual(answer, { id: '1', ...(foreign === StampingModule ? { stamped: true } : {}) });
        assert.deepEqual(adapter.atOnce, []);
      } finally {
        await app.close();
      }
    }
  });
});

import 'reflect-metadata';
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'vitest';
import {
  Body,
  Controller,
  createParamDecorator,
  Get,
  Headers,
  HostParam,
  HttpCode,
  HttpException,
  Injectable,
  Ip,
  Logger,
  Module,
  NotFoundException,
  Param,
  ParseBoolPipe,
  ParseIntPipe,
  Post,
  Query,
  RawBody,
  Redirect,
  Req,
  Res,
  Sse,
  StreamableFile,
  UploadedFile,
  UseGuards,
  UseInterceptors,
  type CanActivate,
  type ExecutionContext,
  type MessageEvent,
} from '@nestjs/common';
import { FileInterceptor, NoFilesInterceptor, type NestExpressApplication } from '@nestjs/platform-express';
import { Type } from 'class-transformer';
import { IsInt, IsString, MaxLength } from 'class-validator';
import type { Request, Response } from 'express';
import { of, type Observable } from 'rxjs';
import { AllowScopes, type Caller } from '../../../src/auth/access.js';
import { CurrentCaller } from '../../../src/auth/api-key.guard.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { FastExpressAdapter } from '../../../src/common/http/server/fast-express.adapter.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

class BudgetDto {
  @IsString() team: string;
}

class TeamDto {
  @MaxLength(3) team: string;
}

class PageDto {
  @IsInt() @Type(() => Number) size: number;
}

const FromHeader = createParamDecorator(
  (name: string, context: ExecutionContext) => context.switchToHttp().getRequest<Request>().headers[name],
);

const Sent = createParamDecorator((name: 'body' | 'query', context: ExecutionContext) => {
  return context.switchToHttp().getRequest<Request>()[name];
});

/** Keeps what a guard behind authentication sees. */
@Injectable()
class Witness implements CanActivate {
  static readonly seen: unknown[] = [];

  canActivate(context: ExecutionContext): boolean {
    const { body, query, user }: Request = context.switchToHttp().getRequest();
    Witness.seen.push({ body, query: { ...query }, user: user?.name });
    return true;
  }
}

/** A fault of the extension, with words that are nobody's business. */
class Fault extends Error {}

@Controller('team')
@AllowScopes('client')
class TeamController {
  readonly #logger = new Logger('Team');

  @Get('number/:n')
  number(@Param('n', ParseIntPipe) n: number): object {
    return { n };
  }

  @Get('flag')
  flag(@Query('on', ParseBoolPipe) on: boolean): object {
    return { on };
  }

  @Get('params/:a/:b')
  params(@Param() params: Record<string, string>, @Headers('x-team') team: string, @Ip() ip: string): object {
    return { ...params, team, ip };
  }

  @Get('custom')
  custom(@FromHeader('x-count', ParseIntPipe) count: number, @CurrentCaller() { name }: Caller): object {
    return { count, name };
  }

  @Post('sent')
  sent(@Sent('body') body: object, @Sent('query') query: object): object {
    return { body, query };
  }

  @Post('form')
  @UseInterceptors(NoFilesInterceptor())
  form(@Body() body: Record<string, string>): object {
    return { ...body };
  }

  @Get('request')
  request(@Req() { query }: Request): object {
    return { ...query };
  }

  @Post('request')
  requestBody(@Req() request: Request): object {
    return { body: request.body };
  }

  @Post('witness')
  @UseGuards(Witness)
  witness(@Body() body: BudgetDto, @Query('dry') dry: string): object {
    return { ...body, dry };
  }

  @Post('field')
  field(@Body('team') team: string, @Body('limit', ParseIntPipe) limit: number): object {
    return { team, limit };
  }

  @Get('page')
  page(@Query() { size }: PageDto): object {
    return { size };
  }

  @Get('anything')
  anything(@Query() query: Record<string, string>): object {
    return { ...query };
  }

  @Get('typed/:team')
  typed(@Param() params: TeamDto): object {
    return { team: params.team, isTyped: params instanceof TeamDto };
  }

  @Post('raw')
  raw(@RawBody() raw: Buffer): object {
    return { raw: raw.toString() };
  }

  @Post('upload')
  @UseInterceptors(FileInterceptor('file'))
  upload(@UploadedFile() file: { originalname: string; size: number }, @Body() fields: object): object {
    return { name: file.originalname, size: file.size, fields };
  }

  @Post('none')
  none(): object {
    return {};
  }

  @Get('passthrough')
  @HttpCode(202)
  passthrough(@Res({ passthrough: true }) response: Response): object {
    response.setHeader('X-Team', 'a');
    return { passed: true };
  }

  @Get('discarded')
  @HttpCode(204)
  discarded(): object {
    return { discarded: true };
  }

  @Get('moved')
  @Redirect('/runs', 307)
  moved(): void {}

  @Get('file')
  file(): StreamableFile {
    return new StreamableFile(Readable.from(['a,', 'b']), { type: 'text/csv' });
  }

  @Sse('events')
  events(): Observable<MessageEvent> {
    return of({ data: { n: 1 }, id: '1' });
  }

  @Get('missing')
  missing(): never {
    throw new NotFoundException('No such team');
  }

  @Get('off')
  off(): never {
    throw new HttpException({ detail: 'The planner is off', errors: ['until Monday'] }, 503);
  }

  @Get('fault')
  fault(): never {
    this.#logger.log('about to fail', { team: 'a' });
    throw new Fault('select secret');
  }
}

@Controller({ path: 'hosted', host: ':team.example' })
@AllowScopes('client')
class HostedController {
  @Get()
  hosted(@HostParam('team') team: string): object {
    return { team };
  }
}

@Module({ controllers: [TeamController, HostedController] })
class TeamModule {}

describe("handlers of an extension use Nest's decorators", () => {
  const app = useTestApp({
    extensions: [TeamModule],
    configure: (nest: NestExpressApplication) => void nest.useBodyParser('text'),
  });

  const get = async (path: string, headers: Record<string, string> = {}): Promise<[number, unknown]> => {
    const { status, body } = await app.send('GET', `/team/${path}`, { headers });
    return [status, body];
  };
  const post = async (path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const answer = await app.send('POST', `/team/${path}`, { body, headers });
    return [answer.status, answer.body];
  };

  test('parameters with pipes, whose words reach the client', async () => {
    assert.deepEqual(await get('number/7'), [200, { n: 7 }]);
    const expected = 'Validation failed (numeric string is expected)';
    assert.deepEqual(await get('number/x'), [400, { detail: expected }]);
    assert.deepEqual(await get('flag?on=true'), [200, { on: true }]);
    assert.deepEqual(await post('sent?a=1', { b: 2 }), [201, { body: { b: 2 }, query: { a: '1' } }]);
    assert.deepEqual(await get('custom', { 'x-count': '3' }), [
      200,
      { count: 3, name: settingsName('admin', KEYS.admin) },
    ]);
    assert.deepEqual(await get('custom', { 'x-count': 'x' }), [400, { detail: expected }]);
  });

  test('parameters of a DTO class, and of none', async () => {
    assert.deepEqual(await get('page?size=7'), [200, { size: 7 }]);
    assert.equal((await get('page?size=x'))[0], 400);
    assert.equal((await get('page?size=7&other=1'))[0], 400);
    assert.deepEqual(await get('anything?a=1&b=x%20y'), [200, { a: '1', b: 'x y' }]);
    assert.deepEqual(await get('typed/abc'), [200, { team: 'abc', isTyped: true }]);
    assert.equal((await get('typed/abcd'))[0], 400);
  });

  test('a form that an interceptor reads', async () => {
    const body = new FormData();
    body.set('team', 'vision');
    const headers = { 'X-API-Key': 'test-admin-key-of-the-tests' };
    const answer = await fetch(`${app.url}/team/form`, { method: 'POST', headers, body });
    assert.deepEqual([answer.status, await answer.json()], [201, { team: 'vision' }]);
  });

  test('all path parameters, a header, the address', async () => {
    const [status, body] = await get('params/1/x%20y', { 'X-Team': 'a' });
    assert.deepEqual([status, body], [200, { a: '1', b: 'x y', team: 'a', ip: '127.0.0.1' }]);
  });

  test('the host', async () => {
    const connection = await RawConnection.open(Number(new URL(app.url).port));
    const headers = { Host: 'blue.example', 'X-API-Key': 'test-admin-key-of-the-tests' };
    const { body } = await connection.send(requestText('GET', '/hosted', headers)).next();
    connection.destroy();
    assert.equal(body, '{"team":"blue"}');
  });

  test('the whole request: any query, and a JSON body', async () => {
    assert.deepEqual(await get('request?a=1&b[x]=2'), [200, { a: '1', 'b[x]': '2' }]);
    assert.deepEqual(await post('request?x=1', { a: [1] }), [201, { body: { a: [1] } }]);
    assert.deepEqual(await post('request'), [201, {}]);
    assert.equal((await post('request', '{"a":'))[0], 400);
  });

  test('a body that a parser of the application has read', async () => {
    assert.deepEqual(await post('request', 'plain', { 'Content-Type': 'text/plain' }), [
      201,
      { body: 'plain' },
    ]);
  });

  test('undeclared query parameters are refused', async () => {
    assert.equal((await get('number/7?x=1'))[0], 400);
    assert.equal((await get('flag?on=true&x=1'))[0], 400);
  });

  test('fields of the body, the raw body, an upload, no body', async () => {
    assert.deepEqual(await post('field', { team: 'a', limit: '3' }), [201, { team: 'a', limit: 3 }]);
    assert.deepEqual(await post('raw', '{"a": 1}'), [201, { raw: '{"a": 1}' }]);
    const form = new FormData();
    form.set('note', 'n');
    form.set('file', new Blob(['12345']), 'five.txt');
    const answer = await fetch(`${app.url}/team/upload`, {
      method: 'POST',
      body: form,
      headers: { 'X-API-Key': 'test-admin-key-of-the-tests' },
    });
    assert.deepEqual(await answer.json(), { name: 'five.txt', size: 5, fields: { note: 'n' } });
    assert.deepEqual(await post('none', 'whatever', { 'Content-Type': 'image/png' }), [201, {}]);
  });

  test('a guard of a route sees caller, body and query; it is not asked about strangers', async () => {
    assert.deepEqual(await post('witness?dry=yes', { team: 'a' }), [201, { team: 'a', dry: 'yes' }]);
    assert.deepEqual(Witness.seen.splice(0), [
      { body: { team: 'a' }, query: { dry: 'yes' }, user: settingsName('admin', KEYS.admin) },
    ]);
    const refused = await app.send('POST', '/team/witness', { key: null, body: { team: 'a' } });
    assert.deepEqual([refused.status, Witness.seen], [401, []]);
  });

  test('status, headers, redirects, files, server-sent events', async () => {
    const passed = await app.send('GET', '/team/passthrough');
    assert.deepEqual(
      [passed.status, passed.headers.get('x-team'), passed.body],
      [202, 'a', { passed: true }],
    );
    const { status, text, headers } = await app.send('GET', '/team/discarded');
    assert.deepEqual([status, text, headers.get('content-length')], [204, '', null]);
    const moved = await fetch(`${app.url}/team/moved`, {
      redirect: 'manual',
      headers: { 'X-API-Key': 'test-admin-key-of-the-tests' },
    });
    assert.deepEqual([moved.status, moved.headers.get('location')], [307, '/runs']);
    const file = await app.send('GET', '/team/file');
    assert.deepEqual([file.headers.get('content-type'), file.text], ['text/csv', 'a,b']);
    const events = await app.send('GET', '/team/events');
    assert.match(events.headers.get('content-type') ?? '', /^text\/event-stream/);
    assert.match(events.text, /id: 1\ndata: \{"n":1\}/);
  });

  test('their exceptions are answered with their words, other errors without, and logged with the request id', async () => {
    assert.deepEqual(await get('missing'), [404, { detail: 'No such team' }]);
    assert.deepEqual(await get('off'), [503, { detail: 'The planner is off', errors: ['until Monday'] }]);
    assert.deepEqual(await get('fault', { 'X-Request-Id': 'fault-1' }), [
      500,
      { detail: 'Internal server error' },
    ]);
    const line = app.logged.find(({ requestId }) => requestId === 'fault-1');
    assert.deepEqual([line?.['level'], line?.['msg'], line?.['context']], ['error', 'select secret', 'Http']);
    const told = app.logged.find(({ msg }) => msg === 'about to fail');
    assert.deepEqual([told?.['level'], told?.['team'], told?.['context']], ['info', 'a', 'Team']);
  });
});

test('options that the HTTP adapter does not implement stop the start', () => {
  for (const name of ['httpsOptions', 'forceCloseConnections', 'return503OnClosing']) {
    const adapter = new FastExpressAdapter(loadSettings([], {}));
    assert.throws(() => adapter.initHttpServer({ [name]: true }), new RegExp(name));
  }
});

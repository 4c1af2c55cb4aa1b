import 'reflect-metadata';
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, it } from 'vitest';
import {
  BadRequestException,
  ForbiddenException,
  HttpException,
  Logger,
  NotFoundException,
} from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { ClientGone } from '../request/body-reader.js';
import { BodyTooLarge, DomainError, ERROR_STATUS, InvalidRequest } from '../../errors/domain-error.js';
import type { DomainErrorOptions, ErrorKind } from '../../errors/domain-error.js';
import { ErrorFilter } from './error.filter.js';

class AnyError extends DomainError {
  constructor(
    readonly kind: ErrorKind,
    options: DomainErrorOptions = {},
  ) {
    super('detail', options);
  }
}

interface Sent {
  readonly status: number;
  readonly headers: NodeJS.Dict<number | string | string[]>;
  readonly body: string;
  readonly destroyed: boolean;
}

function coded(code: string): Error {
  return Object.assign(new Error('secret'), { code });
}

/** What the filter answers to an error. */
function answerTo(error: unknown): Sent {
  const filter = new ErrorFilter({ maxBodyBytes: 10 }, { count: () => undefined });
  const request = new IncomingMessage(new Socket());
  request.complete = true;
  const response = new ServerResponse(request);
  let body = '';
  response.end = (text: unknown) => {
    body = String(text);
    return response;
  };
  const handle = filter.catch.bind(filter);
  handle(error, new ExecutionContextHost([request, response]));
  return { status: response.statusCode, headers: response.getHeaders(), body, destroyed: response.destroyed };
}

describe('the error filter', () => {
  Logger.overrideLogger(false);

  const statuses: [kind: ErrorKind, status: number][] = [
    ['invalid', 400],
    ['unauthenticated', 401],
    ['forbidden', 403],
    ['not-found', 404],
    ['locked', 400],
    ['conflict', 409],
    ['too-large', 413],
    ['unsupported-media-type', 415],
    ['gone', 410],
    ['precondition-failed', 412],
    ['rate-limited', 429],
    ['unavailable', 503],
    ['switched-off', 503],
    ['insufficient-storage', 507],
  ];
  for (const [kind, expected] of statuses) {
    it(`answers ${kind} with ${expected}`, () => {
      const { status, body, headers } = answerTo(new AnyError(kind));
      assert.equal(status, expected);
      assert.equal(body, '{"detail":"detail"}');
      assert.equal(headers['content-length'], Buffer.byteLength(body));
      assert.equal(
        headers['retry-after'],
        kind === 'unavailable' || kind === 'rate-limited' ? '1' : undefined,
      );
      assert.equal(headers['connection'], kind === 'too-large' ? 'close' : undefined);
    });
  }

  it('has a status for every kind', () => {
    assert.deepEqual(Object.fromEntries(statuses), ERROR_STATUS);
  });

  it('sends the lines and the seconds', () => {
    assert.equal(answerTo(new InvalidRequest('no', ['a', 'b'])).body, '{"detail":"no","errors":["a","b"]}');
    assert.equal(answerTo(new InvalidRequest('no', [])).body, '{"detail":"no"}');
    assert.equal(
      answerTo(new AnyError('rate-limited', { retryAfterSeconds: 2.1 })).headers['retry-after'],
      '3',
    );
    assert.equal(answerTo(new BodyTooLarge(5)).body, '{"detail":"Request body is larger than 5 bytes"}');
  });

  const exceptions: [title: string, exception: Error, status: number, body: object][] = [
    ['a text', new NotFoundException('No budget x'), 404, { detail: 'No budget x' }],
    ['no text', new NotFoundException(), 404, { detail: 'Not Found' }],
    [
      'a guard that returns false',
      new ForbiddenException('Forbidden resource'),
      403,
      { detail: 'Forbidden resource' },
    ],
    ['any status', new HttpException('short and stout', 418), 418, { detail: 'short and stout' }],
    [
      'an error of http-errors',
      Object.assign(new Error('No coffee'), { expose: true, statusCode: 418 }),
      418,
      { detail: 'No coffee' },
    ],
    ['a 5xx', new HttpException('The engine is off', 503), 503, { detail: 'The engine is off' }],
    ['a 500', new HttpException('The engine broke', 500), 500, { detail: 'The engine broke' }],
    [
      'several texts',
      new BadRequestException(['a must be a number', 'b must be a number']),
      400,
      { detail: 'Bad Request', errors: ['a must be a number', 'b must be a number'] },
    ],
    [
      'an object with a detail and errors',
      new HttpException({ detail: 'Too much', errors: ['cpu'], more: 1 }, 422),
      422,
      { detail: 'Too much', errors: ['cpu'] },
    ],
    [
      'an object with a message',
      new HttpException({ message: 'Too much' }, 422),
      422,
      { detail: 'Too much' },
    ],
    ['an object with neither', new HttpException({ code: 7 }, 422), 422, { detail: 'Unprocessable entity' }],
    ['an empty text', new HttpException('', 409), 409, { detail: 'Conflict' }],
  ];
  for (const [title, exception, status, body] of exceptions) {
    it(`answers an HttpException with ${title} by its status and its words`, () => {
      const sent = answerTo(exception);
      assert.equal(sent.status, status);
      assert.deepEqual(JSON.parse(sent.body), body);
    });
  }

  const others: [title: string, error: unknown, status: number, detail: string][] = [
    ['a malformed path', new BadRequestException('%zz', { cause: new URIError('%zz') }), 404, 'Not found'],
    ['an impossible status', new HttpException('secret', 0), 500, 'Internal server error'],
    ['an HttpException made of an error', new HttpException(new Error('secret'), 409), 409, 'Conflict'],
    [
      'a failed system call',
      new HttpException('ENOENT /secret', 404, {
        cause: Object.assign(new Error('ENOENT /secret'), { syscall: 'stat' }),
      }),
      404,
      'Not found',
    ],
    ['a fault', new Error('select secret'), 500, 'Internal server error'],
    ['a thrown string', 'secret', 500, 'Internal server error'],
    ['nothing', undefined, 500, 'Internal server error'],
    ['a cycle', new Proxy({}, {}), 500, 'Internal server error'],
  ];
  for (const [title, error, status, detail] of others) {
    it(`answers ${title} without its words`, () => {
      const sent = answerTo(error);
      assert.equal(sent.status, status);
      assert.equal(sent.body, JSON.stringify({ detail }));
    });
  }

  const failures: [title: string, error: Error, status: number, detail: string][] = [
    ['an unreachable database', coded('ECONNREFUSED'), 503, 'The database is not available'],
    ['a deadlock', coded('40P01'), 503, 'The database is not available'],
    [
      'a value that PostgreSQL refuses',
      coded('22021'),
      400,
      'The request holds a value that cannot be stored',
    ],
  ];
  for (const [title, error, status, detail] of failures) {
    it(`answers ${title} with ${status}`, () => {
      const sent = answerTo(error);
      assert.equal(sent.status, status);
      assert.equal(sent.body, JSON.stringify({ detail }));
      assert.equal(sent.headers['retry-after'], status === 503 ? '1' : undefined);
    });
  }

  it('asks the database rules about other errors only', () => {
    assert.equal(answerTo(Object.assign(new AnyError('gone'), { code: 'ECONNREFUSED' })).status, 410);
    assert.equal(answerTo(coded('ERR_OTHER')).status, 500);
  });

  it('answers nobody when the client is gone', () => {
    const { body, destroyed } = answerTo(new ClientGone());
    assert.equal(body, '');
    assert.equal(destroyed, true);
  });
});

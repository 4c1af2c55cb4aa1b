import 'reflect-metadata';
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, it } from 'node:test';
import {
  BadRequestException,
  ForbiddenException,
  HttpException,
  Logger,
  NotFoundException,
} from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { ClientGone } from './body-reader.js';
import { BodyTooLarge, DomainError, ERROR_KINDS, InvalidRequest } from './domain-error.js';
import type { DomainErrorOptions, ErrorKind } from './domain-error.js';
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

/** What the filter answers to an error. */
function answerTo(error: unknown, filter = new ErrorFilter({ maxBodyBytes: 10 })): Sent {
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

  const statuses: Record<ErrorKind, number> = {
    invalid: 400,
    unauthenticated: 401,
    forbidden: 403,
    'not-found': 404,
    locked: 400,
    conflict: 409,
    'too-large': 413,
    'unsupported-media-type': 415,
    gone: 410,
    'rate-limited': 429,
    unavailable: 503,
    'switched-off': 503,
  };
  for (const kind of ERROR_KINDS) {
    it(`answers ${kind} with ${statuses[kind]}`, () => {
      const { status, body, headers } = answerTo(new AnyError(kind));
      assert.equal(status, statuses[kind]);
      assert.equal(body, '{"detail":"detail"}');
      assert.equal(headers['content-length'], Buffer.byteLength(body));
      assert.equal(
        headers['retry-after'],
        kind === 'unavailable' || kind === 'rate-limited' ? '1' : undefined,
      );
      assert.equal(headers['connection'], kind === 'too-large' ? 'close' : undefined);
    });
  }

  it('sends the lines and the seconds', () => {
    assert.equal(answerTo(new InvalidRequest('no', ['a', 'b'])).body, '{"detail":"no","errors":["a","b"]}');
    assert.equal(answerTo(new InvalidRequest('no', [])).body, '{"detail":"no"}');
    assert.equal(
      answerTo(new AnyError('rate-limited', { retryAfterSeconds: 2.1 })).headers['retry-after'],
      '3',
    );
    assert.equal(answerTo(new BodyTooLarge(5)).body, '{"detail":"Request body is larger than 5 bytes"}');
  });

  const others: [title: string, error: unknown, status: number, detail: string][] = [
    ['an unknown route', new NotFoundException('Cannot GET /secret'), 404, 'Not found'],
    ['a guard that says no', new ForbiddenException('Forbidden resource'), 403, 'Forbidden'],
    ['a malformed path', new BadRequestException('%zz', { cause: new URIError('%zz') }), 404, 'Not found'],
    ['another status', new HttpException('secret', 418), 418, "I'm a teapot"],
    ['a Nest 500', new HttpException('secret', 500), 500, 'Internal server error'],
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

  it('asks the classifier about failures only', () => {
    const asked: unknown[] = [];
    const classifier = {
      classify: (error: unknown): DomainError | undefined => {
        asked.push(error);
        return error === 'away' ? new AnyError('unavailable', { retryAfterSeconds: 5 }) : undefined;
      },
    };
    const filter = new ErrorFilter({ maxBodyBytes: 10 }, classifier);
    assert.equal(answerTo('away', filter).headers['retry-after'], '5');
    assert.equal(answerTo('else', filter).status, 500);
    assert.equal(answerTo(new AnyError('gone'), filter).status, 410);
    assert.deepEqual(asked, ['away', 'else']);
  });

  it('answers nobody when the client is gone', () => {
    const { body, destroyed } = answerTo(new ClientGone());
    assert.equal(body, '');
    assert.equal(destroyed, true);
  });
});

import { createHash } from 'node:crypto';
import { applyDecorators, createParamDecorator, type ExecutionContext, type Type } from '@nestjs/common';
import { ApiCreatedResponse, ApiHeader } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { callerOf } from '../auth/api-key.guard.js';
import { InvalidRequest } from '../http/domain-error.js';
import { queryOf } from '../http/query-parser.js';
import { canonicalJson } from '../json/canonical-json.js';
import type { JsonValue } from '../json/json-value.js';
import type { OpRunDto } from './dto/op-run.dto.js';
import type { Idempotency } from './run-journal/run-journal.js';
import type { CreatedRun } from './runs.service.js';

const KEY = /^[\x20-\x7e]{1,255}$/;
const REPLAYED_HEADER = 'Idempotency-Replayed';

/**
 * What the request's `Idempotency-Key` stands for, or undefined without one. A key belongs to the API key, method and
 * path that it came with; the body is compared as a JSON value, together with the query.
 * @throws InvalidRequest when the key is not 1-255 printable ASCII characters
 */
export function readIdempotency(request: Request): Idempotency | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !KEY.test(key)) {
    throw new InvalidRequest('Request validation failed', [
      'header Idempotency-Key must be 1 to 255 printable ASCII characters',
    ]);
  }
  const body: JsonValue = request.body;
  return {
    scope: digest([callerOf(request).id, request.method, request.path, key]),
    requestHash: digest([canonicalJson(body), canonicalJson({ ...queryOf(request.url) })]),
  };
}

/** Parameter: the idempotency of the request, undefined without a key. */
export const IdempotencyOf = createParamDecorator(
  (_: unknown, context: ExecutionContext): Idempotency | undefined =>
    readIdempotency(context.switchToHttp().getRequest<Request>()),
);

/** Answers a creation, and says when it is the answer to a request that was sent before. */
export function answerCreated(response: Response, { run, replayed }: CreatedRun): OpRunDto {
  if (replayed) response.setHeader(REPLAYED_HEADER, 'true');
  return run;
}

/** Documents a creating route that takes an idempotency key. */
export function ApiIdempotentCreation(type: Type): MethodDecorator {
  return applyDecorators(
    ApiHeader({
      name: 'Idempotency-Key',
      required: false,
      description:
        '1-255 printable ASCII characters. The same key with the same body answers with the first run again; ' +
        'with another body: 409. Kept for 48 hours.',
      schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x20-\\x7e]*$' },
    }),
    ApiCreatedResponse({
      type,
      headers: {
        [REPLAYED_HEADER]: {
          description: '`true` when an earlier request with the same key made the run',
          schema: { type: 'string', enum: ['true'] },
        },
      },
    }),
  );
}

function digest(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

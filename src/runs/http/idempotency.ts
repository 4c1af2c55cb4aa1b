import { hash } from 'node:crypto';
import { applyDecorators, type ExecutionContext, type Type } from '@nestjs/common';
import {
  ApiCreatedResponse,
  ApiHeader,
  ApiNoContentResponse,
  ApiOkResponse,
  type ApiResponseOptions,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { callerOf } from '../../auth/api-key.guard.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { ApiErrors } from '../../common/http/errors/error.dto.js';
import { WARNING_HEADER } from '../../common/http/warning-header.js';
import { createHeaderDecorator } from '../../common/http/request/handler-inputs.js';
import { canonicalJson } from '@longshore/common/json/canonical-json';
import type { JsonValue } from '@longshore/common/json/json-value';
import type { OpRunDto } from '../dto/op-run.dto.js';
import type { Idempotency } from '../idempotency/idempotency.repository.js';
import type { AnsweredRun } from '../runs.service.js';

const KEY = /^[\x20-\x7e]{1,255}$/;
const REPLAYED_HEADER = 'Idempotency-Replayed';

/** Digest of the `Idempotency-Key`, API key, method and path; undefined without a key. @throws InvalidRequest */
function readKeyScope(request: Request): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !KEY.test(key)) {
    throw new InvalidRequest('Request validation failed', [
      'header Idempotency-Key must be 1 to 255 printable ASCII characters',
    ]);
  }
  return digest([callerOf(request).id, request.method, request.path, key]);
}

/** Parameter: the idempotency of the request, undefined without a key. The body is compared as a JSON value. */
export const IdempotencyOf = createHeaderDecorator(
  (_: unknown, context: ExecutionContext): Idempotency | undefined => {
    const request = context.switchToHttp().getRequest<Request>();
    const scope = readKeyScope(request);
    if (scope === undefined) return undefined;
    const body: JsonValue = request.body;
    return { scope, requestHash: digest([canonicalJson(body), canonicalJson({ ...Object(request.query) })]) };
  },
);

/** The idempotency of an item of a bulk request: its key is made of the request's key and its index. */
export type BulkKeys = (item: JsonValue, index: number) => Idempotency | undefined;

/** Parameter: the idempotency keys of a bulk request's items. */
export const BulkKeysOf = createHeaderDecorator((_: unknown, context: ExecutionContext): BulkKeys => {
  const scope = readKeyScope(context.switchToHttp().getRequest<Request>());
  return (item, index) =>
    scope === undefined
      ? undefined
      : { scope: `${scope}/${index}`, requestHash: hash('sha256', canonicalJson(item)) };
});

/** Marks the response of a request that repeats an earlier one. */
export function markReplayed(response: Response, replayed: boolean): void {
  if (replayed) response.setHeader(REPLAYED_HEADER, 'true');
}

/** The run as the response's body, marked if the request repeats an earlier one. */
export function sendRun(response: Response, { run, replayed }: AnsweredRun): OpRunDto {
  markReplayed(response, replayed);
  return run;
}

/** Documents the header by which {@link markReplayed} marks a response. */
export const REPLAYED = {
  [REPLAYED_HEADER]: {
    description: '`true` if an earlier request with the same key has succeeded.',
    schema: { type: 'string', enum: ['true'] },
  },
} as const satisfies ApiResponseOptions['headers'];

const KEY_SCHEMA = { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x20-\\x7e]*$' } as const;

/** Documents the header of a route that takes an idempotency key. @param effect what the same key does, in a sentence */
export function ApiIdempotencyKey(effect: string): MethodDecorator {
  return ApiHeader({
    name: 'Idempotency-Key',
    required: false,
    description: `1-255 printable ASCII characters. ${effect} Kept for 48 hours.`,
    schema: KEY_SCHEMA,
  });
}

/** Documents a creating route that takes an idempotency key. */
export function ApiIdempotentCreation(type: Type): MethodDecorator {
  return applyDecorators(
    ApiIdempotencyKey(
      'The same key with the same body answers with the first run again; with another body: 409.',
    ),
    ApiCreatedResponse({
      type,
      description: 'The created run.',
      headers: { ...REPLAYED, ...WARNING_HEADER },
    }),
    ApiErrors(409),
  );
}

/** Documents the answer of a creating route with `dry_run=true`. */
export function ApiDryRun(type: Type): MethodDecorator {
  return ApiOkResponse({
    type,
    description: 'With `dry_run=true`: what would be created.',
    headers: WARNING_HEADER,
  });
}

/** Documents the route that records events and takes an idempotency key. */
export function ApiIdempotentEvent(type: Type): MethodDecorator {
  return applyDecorators(
    ApiIdempotencyKey(
      'The same key with the same body does not record the event again and answers with the run as it is now; ' +
        'with another body: 409.',
    ),
    ApiOkResponse({ type, description: 'The run after the event.', headers: REPLAYED }),
    ApiNoContentResponse({
      description: 'The event was added, for a request with `Prefer: return=minimal`.',
      headers: REPLAYED,
    }),
    ApiErrors(409),
  );
}

function digest(parts: readonly string[]): string {
  return hash('sha256', JSON.stringify(parts));
}

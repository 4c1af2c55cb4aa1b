import { hash } from 'node:crypto';
import type { ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { createHeaderDecorator } from '../../common/http/request/handler-inputs.js';
import { canonicalJson } from '@longshore/common/json/canonical-json';
import type { JsonValue } from '@longshore/common/json/json-value';
import { readKeyScope } from '../idempotency/idempotency.js';
import type { Idempotency } from '../journal/idempotency-ledger.js';

/** The idempotency keys of a bulk request's items: each has one of its own, made of the request's key and its place. */
export class BulkKeys {
  /** @param scope digest of the request's key and of what it belongs to; undefined: the request has none */
  constructor(private readonly scope: string | undefined) {}

  /** The key of the item at a place, with the item's own content; undefined when the request has none. */
  of(item: JsonValue, place: number): Idempotency | undefined {
    if (this.scope === undefined) return undefined;
    return { scope: `${this.scope}/${place}`, requestHash: hash('sha256', canonicalJson(item)) };
  }
}

/** Parameter: the idempotency keys of a bulk request's items. */
export const BulkKeysOf = createHeaderDecorator(
  (_: unknown, context: ExecutionContext): BulkKeys =>
    new BulkKeys(readKeyScope(context.switchToHttp().getRequest<Request>())),
);

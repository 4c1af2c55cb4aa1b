import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { IdempotencyMismatch } from '../run.errors.js';
import { IdempotencyLedger } from './idempotency.repository.js';

const bookOf = (isNew: boolean, runId: string | null = 'run'): IdempotencyLedger =>
  new IdempotencyLedger(
    new Map([['key', { scope: 'key', requestHash: 'hash', runId, isNew, createdAt: new Date(0) }]]),
  );
const REQUEST = { scope: 'key', requestHash: 'hash' };

describe('the keys of a group', () => {
  test('let the first request with a key through, and answer the next one with what it did', () => {
    const book = bookOf(true);
    assert.equal(book.replayOf(REQUEST), null);
    book.use(REQUEST);
    assert.equal(book.replayOf(REQUEST), 'run');
    assert.deepEqual(book.unused, []);
  });

  test('let the next request through when the first was refused, and are given free when all were', () => {
    const book = bookOf(true);
    assert.equal(book.replayOf(REQUEST), null);
    assert.equal(book.replayOf(REQUEST), null);
    assert.deepEqual(book.unused, ['key']);
  });

  test('answer with what an earlier commit did, and never give that key free', () => {
    const book = bookOf(false);
    assert.equal(book.replayOf(REQUEST), 'run');
    assert.deepEqual(book.unused, []);
  });

  test('refuse another content under a key that is in use', () => {
    assert.throws(() => bookOf(false).replayOf({ ...REQUEST, requestHash: 'other' }), IdempotencyMismatch);
    // Also one that comes in the same group: whether the first is refused is not known to who sent both.
    const book = bookOf(true);
    assert.throws(() => book.replayOf({ ...REQUEST, requestHash: 'other' }), IdempotencyMismatch);
    book.use(REQUEST);
    assert.throws(() => book.replayOf({ ...REQUEST, requestHash: 'other' }), IdempotencyMismatch);
  });

  test('know nothing of a request without one', () => {
    assert.equal(bookOf(false).replayOf(undefined), null);
  });
});

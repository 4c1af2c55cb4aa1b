import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { failureMessage, clipMessage, failureSummary, MAX_MESSAGE_BYTES } from './failure-message.js';

test('limits the message to 4 KiB of storable text that ends with the newest line', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 9000 }), { maxLength: 20 }), (lines) => {
      const message = failureMessage(failureSummary({ exitCode: 9, outOfMemory: false }, 0), lines);
      assert.ok(Buffer.byteLength(message) <= MAX_MESSAGE_BYTES);
      assert.ok(!message.includes('\0') && message.isWellFormed());
      assert.match(message, /^The container ended with exit code 9/);
      const last = lines.at(-1);
      const clean = last?.replaceAll('\0', '\uFFFD').toWellFormed();
      if (clean !== undefined && Buffer.byteLength(clean) < 1000) assert.ok(message.endsWith(clean));
    }),
  );
});

test('drops the oldest lines first, and of a line that is too long keeps the end', () => {
  const many = failureMessage(
    's',
    Array.from({ length: 20 }, (_, n) => `${n}`.padEnd(400, '.')),
  );
  assert.ok(many.includes('\n19.') && !many.includes('\n0.'));
  const long = failureMessage('s', [`start${'é'.repeat(5000)}end`]);
  assert.ok(long.endsWith('end') && !long.includes('start') && !long.includes('\uFFFD'));
  const before = failureMessage('s', ['oldest', `${'.'.repeat(5000)} the reason`, 'bye']);
  assert.ok(before.endsWith('. the reason\nbye') && !before.includes('oldest'));
});

test('says when the memory limit ended the container', () => {
  assert.match(failureSummary({ exitCode: 137, outOfMemory: true }, 64), /137.*memory limit of 64 MB/);
  assert.match(failureSummary({ exitCode: 137, outOfMemory: true }, 0), /memory limit\)/);
});

test('clips any text to 4 KiB without half a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 9000 }), (text) => {
      const clipped = clipMessage(text);
      assert.ok(
        Buffer.byteLength(clipped) <= MAX_MESSAGE_BYTES && clipped.isWellFormed() && !clipped.includes('\0'),
      );
    }),
  );
  assert.equal(clipMessage('short'), 'short');
  assert.equal(clipMessage('€'.repeat(2000)).at(-4), '€');
});

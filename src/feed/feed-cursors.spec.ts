import assert from 'node:assert/strict';
import { test } from 'vitest';
import { cursorsOf, decodeCursor } from './feed-cursors.js';

const POSITIONS = [0, 1, 255, 256, 2 ** 32, Number.MAX_SAFE_INTEGER];

test('decodes a cursor to its position for its own topic', () => {
  for (const topic of ['a', 'b c', '\u{1F6A2}'.repeat(255)]) {
    for (const position of POSITIONS) {
      const cursor = cursorsOf(topic, null)(position);
      assert.match(cursor, /^[\w-]{19}$/);
      assert.equal(cursorsOf(topic, null)(position), cursor);
      assert.deepEqual(decodeCursor(topic, cursor), { position, isOfTopic: true, epoch: null });
    }
  }
});

test('recognises a cursor of another topic', () => {
  assert.deepEqual(decodeCursor('b', cursorsOf('a', null)(7)), {
    position: 7,
    isOfTopic: false,
    epoch: null,
  });
});

test('accepts only one spelling of a cursor', () => {
  const cursor = cursorsOf('a', null)(7);
  const last = cursor.at(-1) ?? '';
  const sibling = String.fromCharCode(last.charCodeAt(0) + 1);
  for (const text of [
    '',
    'x',
    ` ${cursor}`,
    `${cursor}=`,
    cursor.slice(0, -1) + sibling,
    cursor.replace('A', '+'),
  ]) {
    assert.equal(decodeCursor('a', text), null, text);
  }
});

test('refuses a position above the safe integers', () => {
  const bytes = Buffer.from(cursorsOf('a', null)(0), 'base64url');
  bytes.writeBigUInt64BE(BigInt(Number.MAX_SAFE_INTEGER) + 1n);
  assert.equal(decodeCursor('a', bytes.toString('base64url')), null);
});

test('encodes the epoch in cursors of later epochs, which are longer', () => {
  const cursor = cursorsOf('a', 'AbCdEf12')(7);
  assert.match(cursor, /^[\w-]{27}$/);
  assert.deepEqual(decodeCursor('a', cursor), { position: 7, isOfTopic: true, epoch: 'AbCdEf12' });
  assert.equal(decodeCursor('b', cursor)?.isOfTopic, false);
});

import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { append, EMPTY_BUFFER, matches, type FeedEvent } from './feed-buffer.js';

const event = (msg: number): FeedEvent => ({
  cursor: String(msg),
  run_id: 'ABC-1',
  attempt: 1,
  type: 'NOTE',
  msg,
  t: '2026-01-01T00:00:00.000Z',
  state: 'PENDING',
  payload: {},
});
const range = (from: number, to: number): FeedEvent[] =>
  Array.from({ length: to - from + 1 }, (_, n) => event(from + n));

describe('the events that a page keeps', () => {
  it('keeps the newest ones, newest first, and counts all', () => {
    let buffer = append(EMPTY_BUFFER, range(1, 3), 5);
    buffer = append(buffer, range(4, 7), 5);
    assert.deepEqual(
      buffer.events.map(({ msg }) => msg),
      [7, 6, 5, 4, 3],
    );
    assert.equal(buffer.total, 7);
  });

  it('takes more at once than it keeps', () => {
    const { events, total } = append(append(EMPTY_BUFFER, range(1, 2), 3), range(3, 9), 3);
    assert.deepEqual(
      events.map(({ msg }) => msg),
      [9, 8, 7],
    );
    assert.equal(total, 9);
  });

  it('finds an event by type, run or message, whatever the case', () => {
    for (const text of ['', 'note', 'abc-', ' 42 ']) assert.ok(matches(event(42), text), text);
    assert.ok(!matches(event(42), '43'));
  });
});

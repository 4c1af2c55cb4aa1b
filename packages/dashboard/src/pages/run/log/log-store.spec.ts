import assert from 'node:assert/strict';
import { describe, test, vi } from 'vitest';
import type { LogEntry, LogPage, ReadLog } from './log-page.js';
import { LogStore } from './log-store.js';

const line = (number: number, text: string, continued = false): LogEntry => ({
  cursor: `c${number}`,
  line: number,
  t: '2026-01-02T03:04:05.678Z',
  stream: 'stdout',
  text,
  ...(continued && { continued: true }),
});

const page = (entries: readonly LogEntry[], change: Partial<LogPage> = {}): LogPage => ({
  entries,
  previous: 'c',
  hasPrevious: false,
  next: entries.at(-1)?.cursor ?? 'c',
  hasMore: false,
  isComplete: false,
  leftOut: 0,
  ...change,
});

const END = page([], { next: 'c9', isComplete: true, leftOut: 5 });

describe('the end of a log that a stream has told', () => {
  test('is read when a read that is under way has ended', async () => {
    let answer: (older: LogPage) => void = () => assert.fail('nothing was read');
    const read: ReadLog = (query) => {
      if (query.tail !== undefined) return Promise.resolve(page([line(8, 'x')], { hasPrevious: true }));
      if (query.before === undefined) return Promise.resolve(END);
      return new Promise((resolve) => (answer = resolve));
    };
    const store = new LogStore(read, '');
    await store.toEnd();
    const reading = store.older();
    await store.complete();
    assert.equal(store.view().window?.isComplete, false);
    answer(page([line(7, 'w')]));
    await reading;
    const { window } = store.view();
    assert.deepEqual([window?.isComplete, window?.leftOut, window?.entries.length], [true, 5, 2]);
  });

  test('is read again after a read that failed, and once', async () => {
    vi.useFakeTimers();
    const queries: Parameters<ReadLog>[0][] = [];
    const read: ReadLog = async (query) => {
      queries.push(query);
      if (query.tail !== undefined) return page([line(8, 'x')]);
      if (queries.length === 2) throw new Error('out of order');
      return END;
    };
    const store = new LogStore(read, '');
    await store.toEnd();
    await store.complete();
    assert.equal(store.view().window?.isComplete, false);
    await vi.runAllTimersAsync();
    const { window, error } = store.view();
    assert.deepEqual([window?.isComplete, window?.leftOut, error], [true, 5, undefined]);
    assert.equal(queries.length, 3);
  });

  test('is not read without end when the log goes on after it', async () => {
    let reads = 0;
    const store = new LogStore(() => Promise.resolve(page([line((reads += 1), 'x')])), '');
    await store.toEnd();
    await store.complete();
    assert.deepEqual([store.view().window?.isComplete, reads], [false, 2]);
  });
});

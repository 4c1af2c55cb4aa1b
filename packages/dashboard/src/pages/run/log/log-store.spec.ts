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
  before: 'c',
  hasOlder: false,
  after: entries.at(-1)?.cursor ?? 'c',
  isAtEnd: true,
  isComplete: false,
  leftOut: 0,
  ...change,
});

const END = page([], { after: 'c9', isComplete: true, leftOut: 5 });

describe('the end of a log that a stream has told', () => {
  test('is read when a read that is under way has ended', async () => {
    let answer: ((older: LogPage) => void) | undefined;
    const read: ReadLog = (query) => {
      if (query.tail !== undefined) return Promise.resolve(page([line(8, 'x')], { hasOlder: true }));
      if (query.before === undefined) return Promise.resolve(END);
      return new Promise((resolve) => (answer = resolve));
    };
    const store = new LogStore(read, '');
    await store.toEnd();
    const reading = store.older();
    await store.complete();
    assert.equal(store.get().window?.isComplete, false);
    answer?.(page([line(7, 'w')]));
    await reading;
    const { window } = store.get();
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
    assert.equal(store.get().window?.isComplete, false);
    await vi.runAllTimersAsync();
    const { window, error } = store.get();
    assert.deepEqual([window?.isComplete, window?.leftOut, error], [true, 5, undefined]);
    assert.equal(queries.length, 3);
  });

  test('is not read without end when the log goes on after it', async () => {
    let reads = 0;
    const store = new LogStore(() => Promise.resolve(page([line((reads += 1), 'x')])), '');
    await store.toEnd();
    await store.complete();
    assert.deepEqual([store.get().window?.isComplete, reads], [false, 2]);
  });
});

/** A search for `border` that has found one line. */
async function searched(): Promise<LogStore> {
  const store = new LogStore(() => Promise.resolve(page([line(3, 'the border')])), 'BORDER');
  await store.toEnd();
  return store;
}
const shown = (store: LogStore): (string | undefined)[] =>
  store.get().window?.entries.map((entry) => ('text' in entry ? entry.text : undefined)) ?? [];

describe('lines that a stream brings to a search', () => {
  test('are shown with all their pieces when the text crosses from one piece into the next', async () => {
    const store = await searched();
    store.follow([line(4, 'none'), line(5, 'here: b')], true);
    assert.deepEqual(shown(store), ['the border']);
    assert.equal(store.get().window?.after, 'c4', 'the unfinished line is read again');
    store.follow([line(6, 'order', true)], true);
    store.follow([line(7, ' end', true), line(8, 'order')], true);
    assert.deepEqual(shown(store), ['the border', 'here: b', 'order', ' end']);
    store.follow([line(9, 'last')], true);
    assert.equal(store.get().window?.after, 'c8');
  });

  test('are shown when they continue the line that was found last, and not when they only look so', async () => {
    const store = await searched();
    store.follow([line(4, ' goes on', true), line(5, 'b'), line(7, 'order', true)], true);
    assert.deepEqual(shown(store), ['the border', ' goes on']);
    const other = await searched();
    other.follow([{ ...line(4, ' goes on', true), stream: 'stderr' }], true);
    assert.deepEqual(shown(other), ['the border']);
  });

  test('are those behind what is shown when the stream begins anew at an unfinished line', async () => {
    const store = await searched();
    store.follow([line(4, 'half b')], true);
    store.follow([line(4, 'half b'), line(5, 'order', true)], true);
    assert.deepEqual(shown(store), ['the border', 'half b', 'order']);
    assert.equal(store.get().window?.after, 'c5');
  });
});

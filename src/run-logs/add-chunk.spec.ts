import assert from 'node:assert/strict';
import { test } from 'vitest';
import * as fc from 'fast-check';
import { addChunk, EMPTY_LOG, isKept, type LogRow, type LogState } from './add-chunk.js';
import { cursorsOf, decodeCursor } from './log-page.js';
import {
  type LogChunk,
  type LogLine,
  entriesOf,
  LOG_START,
  type LogEntry,
  type LogPosition,
} from './log-line.js';

const RUN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const cursorOf = cursorsOf(RUN, 3);

/** A log in memory: the same rows as the tables have. */
class MemoryLog {
  state: LogState = EMPTY_LOG;
  rows: LogRow[] = [];

  constructor(private readonly limitBytes: number) {}

  /** @returns why the chunk is refused; undefined when it was taken */
  add(chunk: LogChunk): string | undefined {
    const change = addChunk(this.state, chunk, this.limitBytes);
    if ('refusal' in change) return change.refusal;
    const { dropBelow, state } = change;
    const kept =
      dropBelow === null ? this.rows : this.rows.filter((row) => isKept(row, state.tail, dropBelow));
    this.rows = [...kept, ...change.rows];
    this.state = state;
    return undefined;
  }

  /** Reads at most so many entries behind a position. */
  read(from: LogPosition, limit: number): LogEntry[] {
    const entries: LogEntry[] = [];
    let position = from;
    for (const row of this.rows) {
      if (row.start.line + row.lines.length <= position.line && row.lines.length > 0) continue;
      for (const entry of entriesOf(row.start, row.lines, position)) {
        if (entries.length === limit) return entries;
        entries.push(entry);
        position = entry.end;
      }
    }
    return entries;
  }
}

/** A line that was printed, or left out by its sender. */
type Printed = { readonly text: string; readonly bytes: number } | { readonly unsent: number | null };

function lineOf(text: string): LogLine {
  return { t: 0, stream: 'stdout', text, continued: false };
}

function chunkOf(firstLine: number, texts: readonly string[], more: Partial<LogChunk> = {}): LogChunk {
  return { firstLine, lines: texts.map(lineOf), isLast: false, skippedBytes: null, cursor: null, ...more };
}

function weightOf({ lines, textBytes }: LogRow): number {
  return lines.length === 0 ? 0 : Math.max(128, textBytes + lines.length);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Encodes a position as a cursor and decodes it, as a client's request does. */
function resume(position: LogPosition): LogPosition {
  const cursor = decodeCursor(RUN, cursorOf(position));
  assert.equal(cursor?.attempt, 3);
  return cursor?.position ?? assert.fail();
}

/** Asserts that the entries cover what was printed: each line once, or a gap of the right size. Returns the next line. */
function assertCovers(entries: readonly LogEntry[], from: number, printed: readonly Printed[]): number {
  let next = from;
  for (const entry of entries) {
    if ('gap' in entry) {
      const { line, lines, bytes } = entry.gap;
      assert.equal(line, next);
      const missing = printed.slice(line, line + lines);
      assert.equal(missing.length, lines);
      assert.equal(bytes, bytesOf(missing));
      next += lines;
    } else {
      assert.equal(entry.number, next);
      const original = printed[next];
      assert.ok(original !== undefined && 'text' in original);
      assert.equal(entry.line.text, original.text);
      next += 1;
    }
    assert.equal(entry.end.line, next);
  }
  return next;
}

/** Bytes of a gap; null if a part of it has no known size. */
function bytesOf(missing: readonly Printed[]): number | null {
  let bytes = 0;
  for (const line of missing) {
    if ('bytes' in line) bytes += line.bytes;
    else if (line.unsent === null) return null;
    else bytes += line.unsent;
  }
  return bytes;
}

const texts = fc.array(
  fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.constantFrom('', 'ä€😀', 'x'.repeat(300)),
    fc.integer({ min: 0, max: 900 }).map((length) => 'y'.repeat(length)),
  ),
  { minLength: 1, maxLength: 12 },
);
const action = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('add' as const), texts }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('skip' as const),
      lines: fc.integer({ min: 1, max: 20 }),
      bytes: fc.option(fc.integer({ min: 0, max: 5000 })),
      texts,
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('read' as const), limit: fc.nat(15) }) },
);

test('a follower reads every line once or in a gap, in order, for any interleaving of reads and drops', () => {
  fc.assert(
    fc.property(
      fc.array(action, { maxLength: 60 }),
      fc.integer({ min: 2000, max: 12_000 }),
      fc.boolean(),
      (actions, limitBytes, endsWithGap) => {
        const log = new MemoryLog(limitBytes);
        const printed: Printed[] = [];
        let position = LOG_START;
        const follow = (limit: number): void => {
          const entries = log.read(resume(position), limit);
          const next = assertCovers(entries, position.line, printed);
          position = entries.at(-1)?.end ?? position;
          assert.equal(position.line, next);
        };
        for (const did of actions) {
          if (did.kind === 'read') {
            follow(did.limit);
            continue;
          }
          if (did.kind === 'skip') {
            // The first one has the size of all of them.
            for (let n = 0; n < did.lines; n += 1) {
              printed.push({ unsent: did.bytes === null ? null : n === 0 ? did.bytes : 0 });
            }
          }
          const skippedBytes = did.kind === 'skip' ? did.bytes : null;
          assert.equal(log.add(chunkOf(printed.length, did.texts, { skippedBytes })), undefined);
          for (const text of did.texts) printed.push({ text, bytes: Buffer.byteLength(text) });
          assertWithinLimit(log, limitBytes);
        }
        if (endsWithGap) printed.push({ unsent: null }, { unsent: null });
        assert.equal(log.add(chunkOf(printed.length, [], { isLast: true })), undefined);
        follow(Infinity);
        assert.equal(position.line, printed.length, 'the follower has reached the end');
        // Reading from the start gives the same, with gaps for what was dropped since.
        assert.equal(assertCovers(log.read(LOG_START, Infinity), 0, printed), printed.length);
      },
    ),
    { numRuns: 400 },
  );
});

/** The first half of the limit is full before anything is dropped, and the newest half is kept. */
function assertWithinLimit(log: MemoryLog, limitBytes: number): void {
  const half = Math.floor(limitBytes / 2);
  const { tail, end } = log.state;
  const last = log.rows.at(-1);
  assert.equal((last?.start.line ?? 0) + (last?.lines.length ?? 0), end.line, 'the newest line is kept');
  const head = log.rows.filter(({ start }) => tail === null || start.line < tail.line);
  assert.ok(sum(head.map(weightOf)) <= half, 'the head fits into its half');
  if (tail === null) return;
  const kept = log.rows.filter(({ start }) => start.line >= tail.line);
  const weight = sum(kept.map(weightOf));
  assert.ok(weight <= half || kept.length === 1, 'the tail fits into the other half');
  const [oldest] = kept;
  if (oldest === undefined || oldest.weightBefore === tail.weight) return;
  // Rows are whole: the one before the oldest kept row would have been too much.
  const heaviest = Math.max(901, half / 16 + 12);
  assert.ok(weight + heaviest > half, 'no more of the tail is dropped than has to be');
}

test('drops nothing from a log within its limit, and fills the head first', () => {
  const log = new MemoryLog(20_000);
  const line = 'z'.repeat(99);
  for (let n = 0; n < 190; n += 10) log.add(chunkOf(n, Array<string>(10).fill(line)));
  assert.equal(log.read(LOG_START, Infinity).length, 190);
  for (let n = 190; n < 400; n += 10) log.add(chunkOf(n, Array<string>(10).fill(line)));
  const entries = log.read(LOG_START, Infinity);
  const gap = entries.findIndex((entry) => 'gap' in entry);
  assert.ok(gap >= 94 && gap <= 100, `the head has ${gap} lines of 100 bytes`);
  assert.ok(entries.length - gap - 1 >= 90 && entries.length - gap - 1 <= 100);
});

test('accepts a chunk that is larger than the whole limit', () => {
  const log = new MemoryLog(10_000);
  const lines = Array.from({ length: 1000 }, (_, n) => `${n} ${'x'.repeat(95)}`);
  assert.equal(log.add(chunkOf(0, lines)), undefined);
  const printed = lines.map((text) => ({ text, bytes: Buffer.byteLength(text) }));
  const entries = log.read(LOG_START, Infinity);
  assert.equal(assertCovers(entries, 0, printed), 1000);
  assert.ok(entries.length < 110 && entries.length > 85, `${entries.length} entries`);
});

test('limits many chunks with almost no text', () => {
  const log = new MemoryLog(10_000);
  for (let n = 0; n < 500; n += 1) log.add(chunkOf(n, ['']));
  assert.ok(log.rows.length <= 80, `${log.rows.length} rows`);
});

test('refuses a chunk with earlier lines or after the last chunk, and changes nothing', () => {
  const log = new MemoryLog(10_000);
  log.add(chunkOf(0, ['a', 'b']));
  const before = log.state;
  assert.match(log.add(chunkOf(1, ['b'])) ?? '', /2 is expected/);
  assert.equal(log.state, before);
  log.add(chunkOf(2, [], { isLast: true }));
  assert.match(log.add(chunkOf(2, ['c'])) ?? '', /complete/);
});

test('a log may end with a gap, and an impossible size counts as unknown', () => {
  const log = new MemoryLog(10_000);
  log.add(chunkOf(0, ['a']));
  log.add(chunkOf(5, ['b'], { skippedBytes: 2 ** 50 }));
  log.add(chunkOf(9, [], { skippedBytes: 7, isLast: true }));
  const gaps = log.read(LOG_START, Infinity).flatMap((entry) => ('gap' in entry ? [entry.gap] : []));
  assert.deepEqual(gaps, [
    { line: 1, lines: 4, bytes: null },
    { line: 6, lines: 3, bytes: 7 },
  ]);
});

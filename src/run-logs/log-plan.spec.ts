import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { LogChunk } from './log-chunk.js';
import { cursorsOf, decodeCursor } from './log-cursor.js';
import { LOG_START, type LogPoint } from './log-point.js';
import type { LogRow } from './log-plan.js';
import type { LogLine } from './log-shapes.js';
import type { LogStep } from './log-walk.js';
import { MemoryLog } from './testing/memory-log.js';

const RUN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const cursorOf = cursorsOf(RUN, 3);

/** A line that was printed, or left out by its sender. */
type Printed = { readonly text: string; readonly bytes: number } | { readonly unsent: number | null };

function lineOf(text: string): LogLine {
  return { t: 0, stream: 'stdout', text, continued: false };
}

function chunkOf(firstLine: number, texts: readonly string[], more: Partial<LogChunk> = {}): LogChunk {
  return { firstLine, lines: texts.map(lineOf), isLast: false, skippedBytes: null, ...more };
}

/** What a row counts for. */
function weightOf({ lines, textBytes }: LogRow): number {
  return lines.length === 0 ? 0 : Math.max(128, textBytes + lines.length);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Goes on behind a place by way of a cursor, as a client does. */
function resume(point: LogPoint): LogPoint {
  const cursor = decodeCursor(RUN, cursorOf(point));
  assert.equal(cursor?.attempt, 3);
  return cursor?.point ?? assert.fail();
}

/** Everything that was printed, told by a reader's steps: each line once, or a gap of the right size in its place. */
function assertTold(steps: readonly LogStep[], from: number, printed: readonly Printed[]): number {
  let next = from;
  for (const step of steps) {
    if ('gap' in step) {
      const { line, lines, bytes } = step.gap;
      assert.equal(line, next);
      const missing = printed.slice(line, line + lines);
      assert.equal(missing.length, lines);
      assert.equal(bytes, bytesOf(missing));
      next += lines;
    } else {
      assert.equal(step.number, next);
      const original = printed[next];
      assert.ok(original !== undefined && 'text' in original);
      assert.equal(step.line.text, original.text);
      next += 1;
    }
    assert.equal(step.behind.line, next);
  }
  return next;
}

/** Bytes of a gap; null when its sender did not tell them of a part. */
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

test('a follower is told every line once or named in a gap, in order, however it and the limit take turns', () => {
  fc.assert(
    fc.property(
      fc.array(action, { maxLength: 60 }),
      fc.integer({ min: 2000, max: 12_000 }),
      fc.boolean(),
      (actions, limitBytes, endsWithGap) => {
        const log = new MemoryLog(limitBytes);
        const printed: Printed[] = [];
        let place = LOG_START;
        const follow = (limit: number): void => {
          const steps = log.read(resume(place), limit);
          const next = assertTold(steps, place.line, printed);
          place = steps.at(-1)?.behind ?? place;
          assert.equal(place.line, next);
        };
        for (const did of actions) {
          if (did.kind === 'read') {
            follow(did.limit);
            continue;
          }
          if (did.kind === 'skip') {
            // The size of all of them stands at the first.
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
        assert.equal(place.line, printed.length, 'the follower has come to the end');
        // Who reads from the beginning afterwards is told the same, with what was dropped since as gaps.
        assert.equal(assertTold(log.read(LOG_START, Infinity), 0, printed), printed.length);
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

test('nothing is dropped from a log that is within its limit, and the head fills up before', () => {
  const log = new MemoryLog(20_000);
  const line = 'z'.repeat(99);
  for (let n = 0; n < 190; n += 10) log.add(chunkOf(n, Array<string>(10).fill(line)));
  assert.equal(log.read(LOG_START, Infinity).length, 190);
  for (let n = 190; n < 400; n += 10) log.add(chunkOf(n, Array<string>(10).fill(line)));
  const steps = log.read(LOG_START, Infinity);
  const gap = steps.findIndex((step) => 'gap' in step);
  assert.ok(gap >= 94 && gap <= 100, `the head has ${gap} lines of 100 bytes`);
  assert.ok(steps.length - gap - 1 >= 90 && steps.length - gap - 1 <= 100);
});

test('one chunk may be larger than the whole limit', () => {
  const log = new MemoryLog(10_000);
  const lines = Array.from({ length: 1000 }, (_, n) => `${n} ${'x'.repeat(95)}`);
  assert.equal(log.add(chunkOf(0, lines)), undefined);
  const printed = lines.map((text) => ({ text, bytes: Buffer.byteLength(text) }));
  const steps = log.read(LOG_START, Infinity);
  assert.equal(assertTold(steps, 0, printed), 1000);
  assert.ok(steps.length < 110 && steps.length > 85, `${steps.length} steps`);
});

test('many chunks of hardly any text have a limit too', () => {
  const log = new MemoryLog(10_000);
  for (let n = 0; n < 500; n += 1) log.add(chunkOf(n, ['']));
  assert.ok(log.rows.length <= 80, `${log.rows.length} rows`);
});

test('a chunk that goes back, or comes after the last one, is refused and changes nothing', () => {
  const log = new MemoryLog(10_000);
  log.add(chunkOf(0, ['a', 'b']));
  const before = log.state;
  assert.match(log.add(chunkOf(1, ['b'])) ?? '', /2 is expected/);
  assert.equal(log.state, before);
  log.add(chunkOf(2, [], { isLast: true }));
  assert.match(log.add(chunkOf(2, ['c'])) ?? '', /complete/);
});

test('a log may end with a gap, and a size that nobody could mean is not known', () => {
  const log = new MemoryLog(10_000);
  log.add(chunkOf(0, ['a']));
  log.add(chunkOf(5, ['b'], { skippedBytes: 2 ** 50 }));
  log.add(chunkOf(9, [], { skippedBytes: 7, isLast: true }));
  const gaps = log.read(LOG_START, Infinity).flatMap((step) => ('gap' in step ? [step.gap] : []));
  assert.deepEqual(gaps, [
    { line: 1, lines: 4, bytes: null },
    { line: 6, lines: 3, bytes: 7 },
  ]);
});

import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import { LogChunker, MAX_CHUNK_LINES, MAX_TEXT } from './log-chunker.js';
import type { LogChunk, ShippedLine } from '../service-api/service-api.js';

const BOUNDS = { heldBytes: 3_000, enoughLines: 5, chunkBytes: 800 };

/** Longest text of the lines below, in characters of up to three bytes. */
const LONGEST = 300;

/** What a line costs at most besides its text. */
const OVERHEAD = 100;

type Step =
  | { readonly kind: 'push'; readonly text: string }
  | { readonly kind: 'take' | 'split' | 'leave-out' };

const text = fc
  .tuple(fc.constantFrom('a', 'é', '日'), fc.integer({ min: 0, max: LONGEST }))
  .map(([character, length]) => character.repeat(length));
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: text.map((words) => ({ kind: 'push', text: words }) as const) },
  { weight: 2, arbitrary: fc.constant({ kind: 'take' } as const) },
  { weight: 1, arbitrary: fc.constantFrom({ kind: 'split' } as const, { kind: 'leave-out' } as const) },
);

describe('LogChunker', () => {
  it('puts every line into one chunk, in order, or into a named gap, in bounded memory', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const chunker = new LogChunker(BOUNDS);
        const pushed: string[] = [];
        const delivered: LogChunk[] = [];
        for (const { kind, ...one } of steps) {
          if ('text' in one) {
            pushed.push(one.text);
            chunker.push(line(one.text));
            assert.ok(chunker.heldBytes <= 2 * BOUNDS.heldBytes, `${chunker.heldBytes} bytes held`);
            continue;
          }
          const wasEmpty = chunker.isEmpty;
          const chunk = chunker.take();
          assert.equal(chunk === null, wasEmpty);
          if (chunk === null) continue;
          const isSplit = kind === 'split' && chunk.lines.length > 1;
          if (isSplit) chunker.split(chunk);
          else if (kind === 'leave-out') chunker.drop(chunk);
          else delivered.push(chunk);
        }
        chunker.end();
        do delivered.push(chunker.take() ?? assert.fail('nothing although no last chunk was taken'));
        while (delivered.at(-1)?.isLast === false);
        assertWhole(delivered, pushed);
      }),
      { numRuns: 1_000 },
    );
  });

  it('keeps the oldest and the newest lines when chunks are not taken', () => {
    const chunker = new LogChunker(BOUNDS);
    for (let n = 0; n < 100_000; n++) chunker.push(line(`line ${n}`));
    chunker.end();
    const chunks = takeAll(chunker);
    assertWhole(
      chunks,
      Array.from({ length: 100_000 }, (_, n) => `line ${n}`),
    );
    assert.equal(chunks[0]?.lines[0]?.text, 'line 0');
    assert.equal(chunks.at(-1)?.lines.at(-1)?.text, 'line 99999');
    assert.equal(chunks.filter(({ skippedBytes }) => skippedBytes > 0).length, 1, 'one gap');
    const kept = chunks.reduce((sum, { lines }) => sum + lines.length, 0);
    assert.ok(kept * (OVERHEAD + 10) > BOUNDS.heldBytes, `${kept} lines kept`);
  });

  it('splits long lines into continued lines, between characters', () => {
    for (const whole of ['x'.repeat(2 * MAX_TEXT + 1), `x${'😀'.repeat(MAX_TEXT)}`]) {
      const chunker = new LogChunker();
      chunker.push(line(whole));
      chunker.push({ ...line('next'), isContinued: true });
      const lines = chunker.take()?.lines ?? [];
      assert.equal(
        lines
          .slice(0, -1)
          .map((one) => one.text)
          .join(''),
        whole,
      );
      assert.deepEqual(
        lines.map(({ isContinued }) => isContinued),
        [false, true, true, true],
      );
      for (const { text: piece } of lines)
        assert.ok(piece.length <= MAX_TEXT && !/\p{Surrogate}/u.test(piece));
    }
  });

  it('replaces characters that the service cannot store', () => {
    const chunker = new LogChunker();
    chunker.push(line('a\0b\uD800c\uDC00d😀'));
    assert.equal(chunker.take()?.lines[0]?.text, 'a\uFFFDb\uFFFDc\uFFFDd😀');
  });

  it('is ready for a chunk by lines, by bytes, and at the end', () => {
    const chunker = new LogChunker();
    assert.equal(chunker.isChunkReady, false);
    assert.equal(chunker.take(), null);
    for (let n = 0; n < 999; n++) chunker.push(line(''));
    assert.equal(chunker.isChunkReady, false);
    chunker.push(line(''));
    assert.equal(chunker.isChunkReady, true);
    chunker.take();
    for (let n = 0; n < 16; n++) chunker.push(line('x'.repeat(MAX_TEXT)));
    assert.equal(chunker.isChunkReady, true);
    const ended = new LogChunker();
    ended.end();
    assert.equal(ended.isChunkReady, true);
    assert.deepEqual(ended.take(), {
      firstLine: 0,
      lines: [],
      skippedBytes: 0,
      isLast: true,
      endsOfLines: [],
    });
  });

  it('keeps the pieces of a line in one chunk, so that what it has of each stream is known', () => {
    const chunker = new LogChunker({ ...BOUNDS, heldBytes: 2 ** 30 });
    const long = 'x'.repeat(MAX_TEXT + 1);
    for (const [stream, end] of [
      ['stdout', 10],
      ['stderr', 20_000],
      ['stdout', 30],
    ] as const)
      chunker.push({ ...line(stream === 'stderr' ? long : 'short'), stream, end });
    const taken = [chunker.take(), chunker.take(), chunker.take()];
    assert.deepEqual(
      taken.map((chunk) => [chunk?.lines.length, chunk?.endsOfLines.at(-1)]),
      [
        [1, { stdout: 10, stderr: 0 }],
        [2, { stdout: 10, stderr: 20_000 }],
        [1, { stdout: 30, stderr: 20_000 }],
      ],
    );
  });

  it('tells of each half of a chunk what has come up to its end, and cuts between lines', () => {
    const chunker = new LogChunker({ ...BOUNDS, heldBytes: 2 ** 30, chunkBytes: 2 ** 30 });
    for (const [stream, words, end] of [
      ['stderr', 'short', 5],
      ['stdout', 'x'.repeat(2 * MAX_TEXT + 1), 40_000],
      ['stdout', 'short', 40_006],
    ] as const)
      chunker.push({ ...line(words), stream, end });
    const halves = (): unknown[] => {
      chunker.split(chunker.take() ?? assert.fail());
      return [chunker.take(), chunker.take()].map((chunk) => [
        chunk?.firstLine,
        chunk?.lines.length,
        chunk?.endsOfLines.at(-1),
      ]);
    };
    assert.deepEqual(halves(), [
      [0, 4, { stdout: 40_000, stderr: 5 }],
      [4, 1, { stdout: 40_006, stderr: 5 }],
    ]);
    // Pieces are separated only from each other.
    chunker.push({ ...line('x'.repeat(2 * MAX_TEXT)), end: 90_000 });
    assert.deepEqual(halves(), [
      [5, 1, { stdout: 40_006, stderr: 5 }],
      [6, 1, { stdout: 90_000, stderr: 5 }],
    ]);
  });

  it("limits the lines of a chunk to the service's limit", () => {
    const chunker = new LogChunker({ heldBytes: 2 ** 30, enoughLines: 1, chunkBytes: 2 ** 30 });
    for (let n = 0; n <= MAX_CHUNK_LINES; n++) chunker.push(line(''));
    assert.equal(chunker.take()?.lines.length, MAX_CHUNK_LINES);
    assert.equal(chunker.take()?.firstLine, MAX_CHUNK_LINES);
  });
});

it('goes on behind what earlier processes have stored of each stream, also of one that prints nothing more', () => {
  const chunker = new LogChunker(undefined, 3);
  chunker.goOnFrom({ stdout: 10, stderr: 5 });
  chunker.push({ ...line('out'), end: 14 });
  assert.deepEqual(chunker.take()?.endsOfLines, [{ stdout: 14, stderr: 5 }]);
});

function line(words: string): ShippedLine {
  return { atMs: 0, stream: 'stdout', text: words, isContinued: false };
}

function takeAll(chunker: LogChunker): LogChunk[] {
  const chunks: LogChunk[] = [];
  for (let chunk = chunker.take(); chunk !== null; chunk = chunk.isLast ? null : chunker.take())
    chunks.push(chunk);
  return chunks;
}

/** Checks that the chunks tell of every line: as it was, or by number and bytes in a gap. */
function assertWhole(chunks: readonly LogChunk[], pushed: readonly string[]): void {
  let next = 0;
  for (const { firstLine, lines, skippedBytes } of chunks) {
    assert.ok(firstLine >= next, `chunk from line ${firstLine} after line ${next}`);
    const missing = pushed.slice(next, firstLine);
    assert.equal(
      skippedBytes,
      missing.reduce((sum, one) => sum + Buffer.byteLength(one), 0),
    );
    next = firstLine + lines.length;
    assert.deepEqual(
      lines.map((one) => one.text),
      pushed.slice(firstLine, next),
    );
  }
  assert.equal(next, pushed.length);
}

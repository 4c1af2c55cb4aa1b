import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import { frame } from '../../../testing/fake-engine-answers.js';
import { demultiplex, logEntries } from './log-frames.js';

describe('demultiplex', () => {
  it('yields the bytes of each stream in order for every division into chunks', async () => {
    const payload = fc.uint8Array({ maxLength: 40 });
    const frames = fc.array(fc.record({ number: fc.constantFrom(0, 1, 2, 3), payload }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(frames, fc.array(fc.integer({ min: 0, max: 30 })), async (sent, cuts) => {
        const bytes = Buffer.concat(
          sent.map(({ number, payload: part }) => frame(number, Buffer.from(part))),
        );
        const expected = merge(
          sent.map(({ number, payload: part }) => ({
            stream: number < 2 ? 'stdout' : 'stderr',
            bytes: Buffer.from(part),
          })),
        );
        const received = [];
        for await (const chunk of demultiplex(pieces(bytes, cuts))) received.push(chunk);
        assert.deepEqual(merge(received), expected);
      }),
      { numRuns: 500 },
    );
  });

  it('yields a payload as it arrives, before the frame is complete', async () => {
    const header = frame(1, Buffer.alloc(0));
    header.writeUInt32BE(0xffff_ffff, 4);
    const chunks = demultiplex(endless([header, Buffer.from('first')]));
    assert.deepEqual((await chunks.next()).value, { stream: 'stdout', bytes: Buffer.from('first') });
  });

  it('refuses bytes that are not frames', async () => {
    for (const text of ['hello world\n', '\x04\0\0\0\0\0\0\x01x', '\x01\0\x01\0\0\0\0\x01x']) {
      await assert.rejects(demultiplex(pieces(Buffer.from(text, 'latin1'), [])).next(), /without frames/);
    }
  });
});

describe('a log with timestamps', () => {
  it('has one entry for each frame, wherever the bytes are cut, and ends a line that is no full piece', async () => {
    const time = '2026-01-01T00:00:00.000000001Z';
    const piece = 'x'.repeat(16 * 1024);
    const texts = ['one\n', '\n', piece, 'rest', piece, '', 'end\n'];
    const bytes = Buffer.concat(texts.map((text) => frame(1, `${time} ${text}`)));
    for (const cuts of [[], [3], [8, 1], Array.from({ length: 200 }, () => 1)]) {
      const entries = [];
      for await (const entry of logEntries(pieces(bytes, cuts))) entries.push(entry);
      assert.deepEqual(
        entries.map((entry) => [entry.stream, entry.time, entry.bytes.toString()]),
        ['one\n', '\n', piece, 'rest\n', piece, '\n', 'end\n'].map((text) => ['stdout', time, text]),
      );
    }
  });
});

/** Cuts bytes at distances, the last piece being the rest; empty pieces stay. */
async function* pieces(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<{ bytes: Buffer }> {
  let from = 0;
  for (const length of cuts) {
    yield { bytes: bytes.subarray(from, from + length) };
    from = Math.min(bytes.length, from + length);
  }
  yield { bytes: bytes.subarray(from) };
}

async function* endless(chunks: readonly Buffer[]): AsyncGenerator<{ bytes: Buffer }> {
  for (const bytes of chunks) yield { bytes };
  await new Promise(() => undefined);
}

/** Joins neighbours of one stream. */
function merge(chunks: readonly { stream: string; bytes: Buffer }[]): { stream: string; hex: string }[] {
  const merged: { stream: string; hex: string }[] = [];
  for (const { stream, bytes } of chunks) {
    const hex = bytes.toString('hex');
    const last = merged.at(-1);
    if (hex === '') continue;
    if (last?.stream === stream) last.hex += hex;
    else merged.push({ stream, hex });
  }
  return merged;
}

import type { LogLine } from './runtime.js';
import type { OutputChunk } from './output-chunks.js';

/** Longer lines are split into parts, in bytes. */
export const MAX_LINE_BYTES = 64 * 1024;

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Longest UTF-8 character, in bytes. */
const MAX_CHARACTER = 4;

/**
 * Makes lines of the bytes of both streams, each stream on its own. A line ends with LF or CR LF; an unfinished last
 * line counts. Invalid UTF-8 becomes U+FFFD. At most `MAX_LINE_BYTES` per stream are held, whatever arrives: a longer
 * line is handed on in parts, cut between characters.
 */
export async function* splitLines(
  chunks: AsyncIterable<OutputChunk<LogLine['stream']>>,
): AsyncGenerator<LogLine, void, undefined> {
  const buffers = { stdout: new LineBuffer('stdout'), stderr: new LineBuffer('stderr') };
  for await (const { stream, bytes } of chunks) yield* buffers[stream].take(bytes);
  for (const stream of ['stdout', 'stderr'] as const) yield* buffers[stream].last();
}

class LineBuffer {
  private held: Buffer | null = null;
  private length = 0;
  private inParts = false;

  constructor(private readonly stream: LogLine['stream']) {}

  *take(bytes: Buffer): Generator<LogLine> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      yield* this.finish(bytes.subarray(from, end));
      from = end + 1;
    }
    if (from < bytes.length) yield* this.hold(bytes.subarray(from));
  }

  *last(): Generator<LogLine> {
    if (this.length > 0) yield* this.finish(Buffer.alloc(0));
  }

  private *finish(part: Buffer): Generator<LogLine> {
    const { stream } = this;
    if (this.length === 0 && !this.inParts && part.length <= MAX_LINE_BYTES) {
      yield { stream, text: decode(part) };
      return;
    }
    yield* this.hold(part);
    const text = decode((this.held ?? part).subarray(0, this.length));
    yield this.inParts ? { stream, text, part: 'rest' } : { stream, text };
    this.length = 0;
    this.inParts = false;
  }

  /** Buffers bytes, and yields a part when the buffer is full. */
  private *hold(bytes: Buffer): Generator<LogLine> {
    const held = (this.held ??= Buffer.allocUnsafeSlow(MAX_LINE_BYTES));
    for (let from = 0; from < bytes.length;) {
      if (this.length === MAX_LINE_BYTES) yield this.emitPart(held);
      const copied = bytes.copy(held, this.length, from);
      this.length += copied;
      from += copied;
    }
  }

  private emitPart(held: Buffer): LogLine {
    const { stream } = this;
    const end = MAX_LINE_BYTES - brokenEnd(held);
    const text = held.toString('utf8', 0, end);
    held.copyWithin(0, end);
    this.length = MAX_LINE_BYTES - end;
    const part = this.inParts ? 'rest' : 'start';
    this.inParts = true;
    return { stream, text, part };
  }
}

function decode(bytes: Buffer): string {
  const end = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length;
  return bytes.toString('utf8', 0, end);
}

/** How many bytes at the end begin a UTF-8 character whose rest is not there. */
function brokenEnd(bytes: Buffer): number {
  for (let back = 1; back < MAX_CHARACTER; back++) {
    const byte = bytes.at(-back) ?? 0;
    const isContinuation = (byte & 0xc0) === 0x80;
    if (isContinuation) continue;
    const characterLength = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return characterLength > back ? back : 0;
  }
  return 0;
}

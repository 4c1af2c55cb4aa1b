import type { LogLine } from './runtime.js';
import type { OutputChunk } from './output-chunks.js';

/** Longest line that is kept, in bytes; the rest of a longer one is dropped. */
export const MAX_LINE_BYTES = 64 * 1024;

/** Ends the text of a line whose rest was dropped. */
export const CUT_MARK = ' [line cut after 64 KiB]';

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * Makes lines of the bytes of both streams, each stream on its own. A line ends with LF or CR LF; an unfinished last
 * line counts. Invalid UTF-8 becomes U+FFFD. At most `MAX_LINE_BYTES` per stream are held, whatever arrives.
 */
export async function* splitLines(
  chunks: AsyncIterable<OutputChunk<LogLine['stream']>>,
): AsyncGenerator<LogLine, void, undefined> {
  const buffers = { stdout: new LineBuffer(), stderr: new LineBuffer() };
  for await (const { stream, bytes } of chunks) {
    for (const text of buffers[stream].take(bytes)) yield { stream, text };
  }
  for (const stream of ['stdout', 'stderr'] as const) {
    const text = buffers[stream].last();
    if (text !== null) yield { stream, text };
  }
}

class LineBuffer {
  private held: Buffer | null = null;
  private length = 0;
  private cut = false;

  *take(bytes: Buffer): Generator<string> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      yield this.finish(bytes.subarray(from, end));
      from = end + 1;
    }
    if (from < bytes.length) this.hold(bytes.subarray(from));
  }

  last(): string | null {
    return this.length === 0 ? null : this.finish(Buffer.alloc(0));
  }

  private finish(part: Buffer): string {
    if (this.length === 0 && part.length <= MAX_LINE_BYTES) return decode(part);
    this.hold(part);
    const bytes = (this.held ?? part).subarray(0, this.length);
    const text = this.cut ? decode(withoutBrokenEnd(bytes)) + CUT_MARK : decode(bytes);
    this.length = 0;
    this.cut = false;
    return text;
  }

  private hold(part: Buffer): void {
    this.held ??= Buffer.allocUnsafeSlow(MAX_LINE_BYTES);
    const copied = part.copy(this.held, this.length);
    this.length += copied;
    if (copied < part.length) this.cut = true;
  }
}

function decode(bytes: Buffer): string {
  const end = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length;
  return bytes.toString('utf8', 0, end);
}

/** Leaves out the first bytes of a UTF-8 character whose rest was dropped. */
function withoutBrokenEnd(bytes: Buffer): Buffer {
  for (let back = 1; back <= 3; back++) {
    const byte = bytes.at(-back) ?? 0;
    const isContinuation = (byte & 0xc0) === 0x80;
    if (isContinuation) continue;
    const characterLength = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return characterLength > back ? bytes.subarray(0, -back) : bytes;
  }
  return bytes;
}

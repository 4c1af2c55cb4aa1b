import type { LineBytes, LogLine } from '../runtime/runtime.js';
import type { Masking } from './masking.js';
import type { SecretMask } from './secret-mask.js';

/** A line without values of secrets. */
export interface MaskedLine extends LogLine {
  /** What was printed, with its values: to read an event from it, which is masked then. Absent: the text. */
  readonly plain?: string;
}

/**
 * Masks a container's lines, each stream on its own. What may be the beginning of a value is held back until its stream goes on: a
 * line, or the end of a part of a line. Thus a value is found that is cut in two, or that has several lines.
 */
export function maskLines(lines: AsyncIterable<LogLine>, mask: SecretMask): AsyncIterable<MaskedLine> {
  const [stdout, stderr] = [mask.begin(), mask.begin()];
  if (stdout === null || stderr === null) return lines;
  return maskEach(lines, {
    stdout: new MaskedStream('stdout', stdout),
    stderr: new MaskedStream('stderr', stderr),
  });
}

async function* maskEach(
  lines: AsyncIterable<LogLine>,
  streams: Readonly<Record<LogLine['stream'], MaskedStream>>,
): AsyncGenerator<MaskedLine, void, undefined> {
  // A loop, because `yield*` in an asynchronous generator waits several times for each item.
  for await (const line of lines) for (const masked of streams[line.stream].add(line)) yield masked;
  for (const stream of Object.values(streams)) for (const masked of stream.end()) yield masked;
}

/** A line, or a part of one, that is not shown completely. */
interface Held {
  readonly text: string;
  /** Offset of the text in the stream. */
  readonly start: number;
  /** Absent: a whole line. */
  readonly part: LogLine['part'];
  readonly bytes: LineBytes | undefined;
  /** Bytes of the stream before it. */
  readonly from: number;
}

class MaskedStream {
  private held: Held[] = [];
  private length = 0;
  /** Offset up to which the stream is shown. */
  private shown = 0;
  /** Whether a part of the last line is shown. */
  private isBegun = false;
  /** What was printed and is not passed on with a text yet. */
  private plain = '';
  /** Bytes of the stream up to the last line or part that was added. */
  private read = 0;

  constructor(
    private readonly stream: LogLine['stream'],
    private readonly masking: Masking,
  ) {}

  add(line: LogLine): MaskedLine[] {
    const { text, part, bytes } = line;
    const from = part === undefined || part === 'start' ? (bytes?.line ?? 0) : this.read;
    this.read = bytes?.end ?? this.read;
    const isEnd = part === undefined || part === 'end';
    const start = this.length;
    const end = start + text.length;
    this.masking.write(text, isEnd);
    this.length = end;
    if (isEnd) {
      this.masking.endLine();
      this.length += 1;
    }
    const settled = this.masking.settled();
    // Most lines neither have a value nor begin one.
    if (part === undefined && settled >= end && this.held.length === 0 && !this.masking.hasFound) {
      this.shown = end;
      return [line];
    }
    this.held.push({ text, start, part, bytes, from });
    return this.show(settled);
  }

  end(): MaskedLine[] {
    return this.show(Infinity);
  }

  private show(settled: number): MaskedLine[] {
    const { stream } = this;
    const lines: MaskedLine[] = [];
    let count = 0;
    for (const held of this.held) {
      const { text, start, part } = held;
      const end = start + text.length;
      const to = Math.min(end, settled);
      if (to < end && (part === undefined || to <= this.shown)) break;
      const bytes = bytesOf(held, to - start);
      if (bytes === null) break;
      if (part === undefined || part === 'start') {
        this.isBegun &&= this.shown > start;
        this.shown = Math.max(this.shown, start);
      }
      const isLineBegin = !this.isBegun;
      const masked = this.masking.show(text, start, { from: this.shown, to, isLineBegin });
      this.plain += text.slice(this.shown - start, to - start);
      this.shown = to;
      const { plain } = this;
      const shown: MaskedLine = {
        stream,
        text: masked,
        ...(plain !== masked && { plain }),
        ...(bytes !== undefined && { bytes }),
      };
      if (to === end && (part === undefined || part === 'end')) {
        lines.push(isLineBegin ? shown : { ...shown, part: 'end' });
        this.plain = '';
        this.isBegun = false;
      } else if (masked !== '') {
        this.isBegun = true;
        lines.push({ ...shown, part: isLineBegin ? 'start' : 'rest' });
        this.plain = '';
      }
      if (to < end) break;
      count += 1;
    }
    if (count > 0) this.held = this.held.slice(count);
    return lines;
  }
}

/** Where the first units of a line or part end in their stream; undefined: it is not counted; null: that is not known. */
function bytesOf({ text, bytes, from }: Held, units: number): LineBytes | undefined | null {
  if (bytes === undefined || units === text.length) return bytes;
  const shown = text.slice(0, units);
  // What stands for bytes that are no text has another length than these; half a character has none.
  if (/[\ufffd\p{Surrogate}]/u.test(shown)) return null;
  return { line: bytes.line, end: from + Buffer.byteLength(shown) };
}

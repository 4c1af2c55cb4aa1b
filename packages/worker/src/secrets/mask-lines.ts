import type { LogLine } from '../runtime/runtime.js';
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

  constructor(
    private readonly stream: LogLine['stream'],
    private readonly masking: Masking,
  ) {}

  add(line: LogLine): MaskedLine[] {
    const { text, part } = line;
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
    this.held.push({ text, start, part });
    return this.show(settled);
  }

  end(): MaskedLine[] {
    return this.show(Infinity);
  }

  private show(settled: number): MaskedLine[] {
    const { stream } = this;
    const lines: MaskedLine[] = [];
    let count = 0;
    for (const { text, start, part } of this.held) {
      const end = start + text.length;
      const to = Math.min(end, settled);
      if (to < end && (part === undefined || to <= this.shown)) break;
      if (part === undefined || part === 'start') {
        this.isBegun &&= this.shown > start;
        this.shown = Math.max(this.shown, start);
      }
      const isLineBegin = !this.isBegun;
      const masked = this.masking.show(text, start, { from: this.shown, to, isLineBegin });
      this.plain += text.slice(this.shown - start, to - start);
      this.shown = to;
      const { plain } = this;
      const shown = plain === masked ? { stream, text: masked } : { stream, text: masked, plain };
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

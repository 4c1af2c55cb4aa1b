import type { LogLine } from '../runtime/runtime.js';
import type { Masking } from './masking.js';
import type { SecretMask } from './secret-mask.js';

/**
 * Masks a container's lines, each stream on its own. What may be the beginning of a value is held back until its stream goes on: a
 * line, or the end of a part of a line. Thus a value is found that is cut in two, or that has several lines.
 */
export function maskLines(lines: AsyncIterable<LogLine>, mask: SecretMask): AsyncIterable<LogLine> {
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
): AsyncGenerator<LogLine, void, undefined> {
  for await (const line of lines) yield* streams[line.stream].add(line);
  for (const stream of Object.values(streams)) yield* stream.end();
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
  /** Whether the last line is in parts and may go on. */
  private isOpen = false;
  /** Whether a part of the last line is shown. */
  private isBegun = false;

  constructor(
    private readonly stream: LogLine['stream'],
    private readonly masking: Masking,
  ) {}

  add({ text, part }: LogLine): LogLine[] {
    if (part !== 'rest' && this.isOpen) this.endLine();
    this.held.push({ text, start: this.length, part });
    this.masking.write(text, part === undefined);
    this.length += text.length;
    if (part === undefined) this.endLine();
    else this.isOpen = true;
    return this.show(this.masking.settled());
  }

  end(): LogLine[] {
    return this.show(Infinity);
  }

  private endLine(): void {
    this.masking.endLine();
    this.length += 1;
    this.isOpen = false;
  }

  private show(settled: number): LogLine[] {
    const lines: LogLine[] = [];
    let count = 0;
    for (const { text, start, part } of this.held) {
      const end = start + text.length;
      const to = Math.min(end, settled);
      if (to < end && (part === undefined || to <= this.shown)) break;
      if (part !== 'rest') {
        this.isBegun &&= this.shown > start;
        this.shown = Math.max(this.shown, start);
      }
      const isLineBegin = !this.isBegun;
      const masked = this.masking.show(text, start, { from: this.shown, to, isLineBegin });
      this.shown = to;
      if (part === undefined) lines.push({ stream: this.stream, text: masked });
      else if (masked !== '') {
        this.isBegun = true;
        lines.push({ stream: this.stream, text: masked, part: isLineBegin ? 'start' : 'rest' });
      }
      if (to < end) break;
      count += 1;
    }
    if (count > 0) this.held = this.held.slice(count);
    return lines;
  }
}

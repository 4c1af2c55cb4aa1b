import type { LogLine } from '../runtime/runtime.js';
import type { SecretMask } from './secret-mask.js';

/**
 * Masks a container's lines. Of a line in parts, it holds back at most the longest value less one character until the next
 * part, so that a value that is cut in two is found.
 */
export function maskLines(lines: AsyncIterable<LogLine>, mask: SecretMask): AsyncIterable<LogLine> {
  return mask.longest === 0 ? lines : maskEach(lines, mask);
}

async function* maskEach(
  lines: AsyncIterable<LogLine>,
  mask: SecretMask,
): AsyncGenerator<LogLine, void, undefined> {
  const open = { stdout: new OpenLine('stdout', mask), stderr: new OpenLine('stderr', mask) };
  for await (const line of lines) {
    const { stream, text, part } = line;
    if (part !== 'rest') yield* open[stream].end();
    if (part === undefined) yield { stream, text: mask.text(text) };
    else yield* open[stream].add(text);
  }
  for (const line of Object.values(open)) yield* line.end();
}

/** A line of one stream that arrives in parts. */
class OpenLine {
  private held = '';
  private isStarted = false;

  constructor(
    private readonly stream: LogLine['stream'],
    private readonly mask: SecretMask,
  ) {}

  *add(text: string): Generator<LogLine> {
    const all = this.held + text;
    const { masked, rest } = this.mask.begin(all, Math.max(0, all.length - this.mask.longest + 1));
    this.held = rest;
    yield* this.part(masked);
  }

  *end(): Generator<LogLine> {
    yield* this.part(this.mask.text(this.held));
    this.held = '';
    this.isStarted = false;
  }

  private *part(text: string): Generator<LogLine> {
    if (text === '') return;
    yield { stream: this.stream, text, part: this.isStarted ? 'rest' : 'start' };
    this.isStarted = true;
  }
}

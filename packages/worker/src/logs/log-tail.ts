import { lastState, shownLine, writesOver } from '@longshore/common/shown-text';
import type { LogLine } from '../runtime/runtime.js';

/** Longest end of a line that is kept, in UTF-16 units. */
const MAX_KEPT = 4096;

/** A line, or parts of one that follow each other. */
interface Entry {
  text: string;
}

/**
 * The last lines of a log, as its readers see them: in the order in which they came, the parts of a line together unless another
 * line came between them, and without what was written over.
 */
export class LogTail {
  /** A whole line is its text alone. */
  private entries: (Entry | string)[] = [];
  /** Those of the line of each stream that may go on. */
  private readonly open: Record<LogLine['stream'], Entry[]> = { stdout: [], stderr: [] };

  constructor(private readonly size = 20) {}

  /** @param text as {@link keptText} returns it. @param part undefined: a whole line */
  add(stream: LogLine['stream'], text: string, part: LogLine['part']): void {
    if (part === undefined) {
      this.push(text.length > MAX_KEPT ? ending(text) : text);
      return;
    }
    if (part === 'start') this.open[stream] = [];
    if (writesOver(text) || this.open[stream].at(-1)?.text.endsWith('\r') === true) this.dropLine(stream);
    const last = this.open[stream].at(-1);
    if (last !== undefined && last === this.entries.at(-1)) last.text = ending(last.text + text);
    else if (text !== '') {
      const entry = { text: ending(text) };
      this.push(entry);
      this.open[stream] = [...this.open[stream].slice(1 - this.size), entry];
    }
  }

  /** Leaves out what has come of the line that ends now, or is written over. */
  dropLine(stream: LogLine['stream']): void {
    const dropped = new Set<Entry | string>(this.open[stream]);
    this.open[stream] = [];
    if (dropped.size > 0) this.entries = this.entries.filter((entry) => !dropped.has(entry));
  }

  /** Oldest first. */
  lines(): string[] {
    return this.entries
      .slice(-this.size)
      .map((entry) => shownLine(typeof entry === 'string' ? entry : entry.text));
  }

  private push(entry: Entry | string): void {
    // Several at once: each removal moves all that are kept.
    if (this.entries.length >= 2 * this.size) this.entries.splice(0, this.size);
    this.entries.push(entry);
  }
}

/** What is kept of a line, or of a part of one: its last state. @param isContinued it goes on with a line */
export function keptText(text: string, isContinued: boolean): string {
  const kept = lastState(text, isContinued);
  // A slice would keep the whole text in memory; a copy does not.
  return kept.length < text.length ? copyOf(kept) : kept;
}

function ending(text: string): string {
  return text.length > MAX_KEPT ? copyOf(text.slice(-MAX_KEPT).replace(/^[\udc00-\udfff]/, '')) : text;
}

function copyOf(text: string): string {
  return Buffer.from(text).toString();
}

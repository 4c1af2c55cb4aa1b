import { mayHaveEscapes, unescape } from './escapes.js';
import type { TextAutomaton } from './text-automaton.js';
import { TextCursor, type Found, type Span } from './text-cursor.js';

/** Stands in for a value. */
export const MASK = '***';

/** Offsets of a part that is shown. */
interface ShownPart {
  readonly from: number;
  readonly to: number;
  /** Whether nothing of its line was shown before: a value that began in an earlier line is masked in this one, too. */
  readonly isLineBegin: boolean;
}

/**
 * Finds the values of secrets in one text that arrives in pieces: as they are, and as they are written with escapes. Each unit
 * has an offset: the number of units before it.
 */
export class Masking {
  /** What the cursors have found in the last piece. */
  private readonly found: Found[] = [];
  private readonly plain: TextCursor;
  /** Reads the line without its escapes, from the first on. Null: there was none. */
  private unescaped: TextCursor | null = null;
  /** The end of the line that may be a part of an escape. */
  private cut = '';
  private length = 0;
  /** What was found and not shown: ascending and disjoint. */
  private readonly spans: Span[] = [];

  /** @param texts collects the numbers of those that are found; null: it is not asked for */
  constructor(
    automaton: TextAutomaton,
    private readonly texts: Set<number> | null = null,
  ) {
    this.plain = new TextCursor(automaton, this.found);
  }

  /** @param isLineEnd whether a line ends with it */
  write(text: string, isLineEnd: boolean): void {
    this.plain.forgetRuns();
    this.unescaped?.forgetRuns();
    if (mayHaveEscapes(text)) this.unescaped ??= this.plain.fork();
    this.plain.read({ text, shift: this.length, offsets: null }, isLineEnd);
    if (this.unescaped !== null) {
      const all = this.cut + text;
      const unescaped = unescape(all, isLineEnd);
      this.unescaped.read({ ...unescaped, shift: this.length - this.cut.length }, isLineEnd);
      this.cut = all.slice(unescaped.read);
    }
    this.length += text.length;
    if (this.found.length > 0) this.collect();
  }

  /** Whether a value was found that {@link show} has not passed. */
  get hasFound(): boolean {
    return this.spans.length > 0;
  }

  /** A line break, of one unit. No text ends with it. */
  endLine(): void {
    this.plain.endLine({ shift: this.length, offsets: null }, 0);
    this.length += 1;
    this.unescaped = null;
    this.cut = '';
  }

  /** The text before this offset is decided: what comes next changes nothing there. */
  settled(): number {
    const begun = Math.min(this.plain.begun(), this.unescaped?.begun() ?? Infinity);
    return Math.min(begun, this.length - this.cut.length);
  }

  /**
   * A part of the text with {@link MASK} for each value. Call it in the order of the text.
   * @param text with the offset `shift`
   */
  show(text: string, shift: number, { from, to, isLineBegin }: ShownPart): string {
    const parts: string[] = [];
    let at = from;
    let passed = 0;
    for (const { start, end } of this.spans) {
      if (start >= to) break;
      const isShown = start >= from || isLineBegin;
      parts.push(text.slice(at - shift, Math.max(at, start) - shift) + (isShown ? MASK : ''));
      at = Math.max(at, Math.min(end, to));
      if (end <= to) passed += 1;
    }
    this.spans.splice(0, passed);
    parts.push(text.slice(at - shift, to - shift));
    return parts.join('');
  }

  /** Takes what the cursors have found, in the order in which it ends; parts that overlap become one. */
  private collect(): void {
    const { found, spans } = this;
    if (this.unescaped !== null) found.sort((a, b) => a.end - b.end);
    for (const part of found) {
      this.texts?.add(part.text);
      let span: Span = part;
      for (let last = spans.at(-1); last !== undefined && last.end > span.start; last = spans.at(-1)) {
        span = { start: Math.min(span.start, last.start), end: Math.max(span.end, last.end) };
        spans.pop();
      }
      spans.push(span);
    }
    found.length = 0;
  }
}

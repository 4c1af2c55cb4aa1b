import { mayHaveEscapes, unescape } from './escapes.js';
import type { TextAutomaton } from './text-automaton.js';
import { TextCursor, type Span } from './text-cursor.js';

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
  private readonly plain: TextCursor;
  /** Reads the line without its escapes; null: it has none so far. */
  private unescaped: TextCursor | null = null;
  /** The end of the line that may be a part of an escape. */
  private cut = '';
  private length = 0;
  /** Ascending and disjoint. */
  private spans: Span[] = [];

  constructor(automaton: TextAutomaton) {
    this.plain = new TextCursor(automaton);
  }

  /** @param isLineEnd whether a line ends with it */
  write(text: string, isLineEnd: boolean): void {
    if (this.unescaped === null && mayHaveEscapes(text)) this.unescaped = this.plain.fork();
    this.plain.read({ text, shift: this.length, offsets: null }, isLineEnd);
    if (this.unescaped !== null) {
      const all = this.cut + text;
      const { rest, ...plain } = unescape(all, isLineEnd);
      this.unescaped.read({ ...plain, shift: this.length - this.cut.length }, isLineEnd);
      this.cut = rest;
    }
    this.length += text.length;
    this.collect();
  }

  /** A line break, of one unit. No text ends with it. */
  endLine(): void {
    this.plain.endLine({ text: '\n', shift: this.length, offsets: null }, 0);
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
    if (this.spans.length === 0)
      return from === shift && to === shift + text.length ? text : text.slice(from - shift, to - shift);
    let shown = '';
    let at = from;
    let count = 0;
    for (const { start, end } of this.spans) {
      if (start >= to) break;
      shown += text.slice(at - shift, Math.max(at, start) - shift);
      if (start >= from || isLineBegin) shown += MASK;
      at = Math.min(end, to);
      if (end <= to) count += 1;
    }
    if (count > 0) this.spans = this.spans.slice(count);
    return shown + text.slice(at - shift, to - shift);
  }

  private collect(): void {
    const plain = this.plain.take();
    const unescaped = this.unescaped?.take() ?? [];
    if (plain.length === 0 && unescaped.length === 0) return;
    if (unescaped.length === 0) {
      for (const span of plain) this.add(span);
      return;
    }
    const all = [...this.spans, ...plain, ...unescaped].toSorted((a, b) => a.start - b.start);
    this.spans = [];
    for (const span of all) this.add(span);
  }

  /** Adds a span that ends behind all others, or begins behind their beginnings. */
  private add(span: Span): void {
    let { start, end } = span;
    for (let last = this.spans.at(-1); last !== undefined && start < last.end; last = this.spans.at(-1)) {
      start = Math.min(start, last.start);
      end = Math.max(end, last.end);
      this.spans.pop();
    }
    this.spans.push({ start, end });
  }
}

import { mayHaveEscapes, unescape } from './escapes.js';
import type { TextAutomaton } from './text-automaton.js';
import { addSpan, TextCursor, type Spans } from './text-cursor.js';

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
  private spans: Spans = [];

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

  /** Whether a value was found that {@link show} has not passed. */
  get hasFound(): boolean {
    return this.spans.length > 0;
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
    const shown: string[] = [];
    let at = from;
    let count = 0;
    for (let index = 0; index < this.spans.length; index += 2) {
      const start = Number(this.spans[index]);
      const end = Number(this.spans[index + 1]);
      if (start >= to) break;
      shown.push(text.slice(at - shift, Math.max(at, start) - shift));
      if (start >= from || isLineBegin) shown.push(MASK);
      at = Math.min(end, to);
      if (end <= to) count += 2;
    }
    if (count > 0) this.spans = this.spans.slice(count);
    shown.push(text.slice(at - shift, to - shift));
    return shown.join('');
  }

  private collect(): void {
    const plain = this.plain.take();
    const unescaped = this.unescaped?.take() ?? [];
    if (this.spans.length === 0) this.spans = plain;
    else addAll(this.spans, plain);
    if (unescaped.length === 0) return;
    const both: Spans = [];
    let at = 0;
    for (let index = 0; index < unescaped.length; index += 2) {
      const start = Number(unescaped[index]);
      for (; Number(this.spans[at]) <= start; at += 2)
        addSpan(both, Number(this.spans[at]), Number(this.spans[at + 1]));
      addSpan(both, start, Number(unescaped[index + 1]));
    }
    addAll(both, this.spans.slice(at));
    this.spans = both;
  }
}

function addAll(spans: Spans, others: Spans): void {
  for (let index = 0; index < others.length; index += 2)
    addSpan(spans, Number(others[index]), Number(others[index + 1]));
}

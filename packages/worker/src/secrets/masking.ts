import { CUT, escapeAt, mayHaveEscapes } from './escapes.js';
import type { TextAutomaton } from './text-automaton.js';
import { isBlank, TextCursor, type Span } from './text-cursor.js';

/** Stands in for a value. */
export const MASK = '***';

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

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
    readPlain(this.plain, text, this.length, isLineEnd);
    if (this.unescaped !== null) {
      const all = this.cut + text;
      const read = readEscaped(this.unescaped, all, this.length - this.cut.length, isLineEnd);
      this.cut = all.slice(read);
    }
    this.length += text.length;
    this.collect();
  }

  /** A line break, of one unit. */
  endLine(): void {
    this.plain.breakLine(this.length, 1);
    this.length += 1;
    this.unescaped = null;
    this.cut = '';
    this.collect();
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
    const all = [...this.spans, ...plain, ...unescaped].toSorted((a, b) => a.start - b.start);
    this.spans = [];
    let last: { start: number; end: number } | undefined;
    for (const { start, end } of all) {
      if (last !== undefined && start < last.end) last.end = Math.max(last.end, end);
      else this.spans.push((last = { start, end }));
    }
  }
}

function readPlain(cursor: TextCursor, text: string, shift: number, isLineEnd: boolean): void {
  if (!text.includes('\n') && !text.includes('\r')) {
    cursor.read(text, 0, isLineEnd ? trimmedEnd(text, 0, text.length) : text.length, shift);
    return;
  }
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (!isBreak(text.charCodeAt(at))) continue;
    cursor.read(text, from, trimmedEnd(text, from, at), shift);
    cursor.breakLine(shift + at, 1);
    from = at + 1;
  }
  cursor.read(text, from, isLineEnd ? trimmedEnd(text, from, text.length) : text.length, shift);
}

/** @returns how many units it has read: the rest may be a part of an escape */
function readEscaped(cursor: TextCursor, text: string, shift: number, isLineEnd: boolean): number {
  let from = 0;
  for (let at = 0; at < text.length;) {
    const escape = escapeAt(text, at);
    if (escape === CUT && !isLineEnd) {
      cursor.read(text, from, at, shift);
      return at;
    }
    const width = escape > 0 ? escape & 7 : 1;
    const unit = escape > 0 ? escape >> 3 : text.charCodeAt(at);
    if (isBreak(unit)) {
      cursor.read(text, from, trimmedEnd(text, from, at), shift);
      cursor.breakLine(shift + at, width);
      from = at + width;
    } else if (escape > 0) {
      cursor.read(text, from, at, shift);
      cursor.readEscape(unit, shift + at, width);
      from = at + width;
    }
    at += width;
  }
  cursor.read(text, from, isLineEnd ? trimmedEnd(text, from, text.length) : text.length, shift);
  return text.length;
}

function isBreak(unit: number): boolean {
  return unit === LINE_FEED || unit === CARRIAGE_RETURN;
}

function trimmedEnd(text: string, from: number, to: number): number {
  let end = to;
  while (end > from && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return end;
}

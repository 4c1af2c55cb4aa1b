import { hasUnshown, unshownParts } from '@longshore/common/shown-text';
import { mayHaveEscapes, unescape } from './escapes.js';
import type { TextAutomaton } from './text-automaton.js';
import { Spans, TextCursor } from './text-cursor.js';
import { UnitBuffer } from './unit-buffer.js';

/** Stands in for a value. */
export const MASK = '***';

const MASK_UNITS = Uint16Array.from(MASK, (unit) => unit.charCodeAt(0));

const piece = new UnitBuffer();
const shown = new UnitBuffer();

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
  /** Reads the line without its escapes, from the first on. */
  private readonly unescaped: TextCursor;
  private hasEscapes = false;
  /** The end of the line that may be a part of an escape. */
  private cut = '';
  private length = 0;
  private readonly spans = new Spans();

  /** @param texts as in {@link TextCursor} */
  constructor(automaton: TextAutomaton, texts: Set<number> | null = null) {
    this.plain = new TextCursor(automaton, texts);
    this.unescaped = new TextCursor(automaton, texts);
  }

  /** Begins another text. */
  restart(): void {
    this.plain.restart();
    this.spans.clear();
    this.hasEscapes = false;
    this.cut = '';
    this.length = 0;
  }

  /** @param isLineEnd whether a line ends with it */
  write(text: string, isLineEnd: boolean): void {
    if (this.length > 0) this.plain.forgetRuns();
    if (this.hasEscapes) this.unescaped.forgetRuns();
    if (!this.hasEscapes && mayHaveEscapes(text)) {
      this.hasEscapes = true;
      this.unescaped.follow(this.plain);
    }
    const all = this.cut + text;
    const units = piece.of(all);
    const from = this.cut.length;
    const shift = this.length - from;
    const hasBreaks = text.includes('\n') || text.includes('\r');
    this.plain.read({ units, from, to: all.length, hasBreaks, shift, offsets: null }, isLineEnd);
    if (this.hasEscapes) {
      const unshown = hasUnshown(all) ? unshownParts(all) : [];
      const unescaped = unescape(units, 0, all.length, isLineEnd, unshown);
      this.unescaped.read({ ...unescaped, from: 0, shift }, isLineEnd);
      this.cut = all.slice(unescaped.read);
    }
    this.length += text.length;
    this.collect();
  }

  /** Whether a value was found that {@link show} has not passed. */
  get hasFound(): boolean {
    return !this.spans.isEmpty;
  }

  /** A line break, of one unit. No text ends with it. */
  endLine(): void {
    this.plain.endLine({ shift: this.length, offsets: null }, 0);
    this.length += 1;
    this.hasEscapes = false;
    this.cut = '';
  }

  /** The text before this offset is decided: what comes next changes nothing there. */
  settled(): number {
    const begun = Math.min(this.plain.begun(), this.hasEscapes ? this.unescaped.begun() : Infinity);
    return Math.min(begun, this.length - this.cut.length);
  }

  /**
   * A part of the text with {@link MASK} for each value. Call it in the order of the text.
   * @param text with the offset `shift`
   */
  show(text: string, shift: number, { from, to, isLineBegin }: ShownPart): string {
    const { spans } = this;
    const part = text.slice(from - shift, to - shift);
    if (spans.isEmpty) return part;
    const units = piece.of(part);
    const masked = shown.ofLength(part.length + MASK.length * spans.count);
    let at = from;
    let size = 0;
    let bits = 0;
    let passed = 0;
    for (let index = 0; ; index++) {
      const start = index < spans.count ? Math.min(to, spans.startAt(index)) : to;
      for (; at < start; at++) {
        const unit = Number(units[at - from]);
        masked[size++] = unit;
        bits |= unit;
      }
      if (start === to) break;
      const end = spans.endAt(index);
      if (start >= from || isLineBegin) for (const star of MASK_UNITS) masked[size++] = star;
      at = Math.max(at, Math.min(end, to));
      if (end <= to) passed += 1;
    }
    spans.forget(passed);
    return shown.text(size, bits);
  }

  /** Takes what both have found, in the order in which it ends. */
  private collect(): void {
    const { spans } = this;
    const plain = this.plain.found;
    const unescaped = this.unescaped.found;
    let taken = 0;
    for (let index = 0; index < unescaped.count; index++) {
      const end = unescaped.endAt(index);
      for (; taken < plain.count && plain.endAt(taken) <= end; taken++)
        spans.add(plain.startAt(taken), plain.endAt(taken));
      spans.add(unescaped.startAt(index), end);
    }
    for (; taken < plain.count; taken++) spans.add(plain.startAt(taken), plain.endAt(taken));
    plain.clear();
    unescaped.clear();
  }
}

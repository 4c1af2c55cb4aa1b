import type { Findings, TextAutomaton } from './text-automaton.js';

/** A text in which each unit has an offset in the original. */
interface Located {
  readonly text: string;
  /** Offset of the first unit. */
  readonly shift: number;
  /** Offset of each unit and of the end, from `shift`; null: each is one of the original. */
  readonly offsets: Int32Array | null;
}

/** Units that the automaton has read in a row. */
interface Run {
  /** Number of units that it has read before. */
  readonly read: number;
  /** The first of them in the text of `source`. */
  readonly from: number;
  readonly source: Omit<Located, 'text'>;
}

/** A part of a text by offsets: those of its first unit and of the unit after it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A part that is one of the automaton's texts. */
export interface Found extends Span {
  /** Its number. */
  readonly text: number;
}

/**
 * Searches in a text that arrives in pieces. Line breaks count as one line feed each, without the blanks around them and without
 * blank lines. Results are offsets in the original text.
 */
export class TextCursor implements Findings {
  private node = 0;
  private readCount = 0;
  private runs: Run[] = [];
  private isLineEmpty = true;

  /** @param found gets the longest text that ends at each unit */
  constructor(
    private readonly automaton: TextAutomaton,
    private readonly found: Found[],
  ) {}

  /** A cursor that goes on from here. */
  fork(): TextCursor {
    const fork = new TextCursor(this.automaton, this.found);
    fork.node = this.node;
    fork.readCount = this.readCount;
    fork.runs = [...this.runs];
    fork.isLineEmpty = this.isLineEmpty;
    return fork;
  }

  /** For the automaton: a text of `length` units ends before the unit `end` of the last run. */
  add(end: number, text: number, length: number): void {
    const run = this.runs.at(-1);
    if (run === undefined) return;
    const first = end - length;
    const start = first < run.from ? this.startOf(run.read + first - run.from) : offsetAt(run.source, first);
    this.found.push({ start, end: offsetAt(run.source, end - 1, 1), text });
  }

  /** @param isLineEnd whether a line ends with the text */
  read(source: Located, isLineEnd: boolean): void {
    const { text } = source;
    let from = 0;
    const breaksEnd = text.includes('\n') || text.includes('\r') ? text.length : 0;
    for (let at = 0; at < breaksEnd; at++) {
      if (!isBreak(text.charCodeAt(at))) continue;
      this.readLine(source, from, trimmedEnd(text, from, at));
      this.endLine(source, at);
      from = at + 1;
    }
    this.readLine(source, from, isLineEnd ? trimmedEnd(text, from, text.length) : text.length);
  }

  /** A line break, which is the unit of the text at `at`. */
  endLine(source: Omit<Located, 'text'>, at: number): void {
    if (this.isLineEmpty) return;
    this.isLineEmpty = true;
    this.search('\n', 0, 1, { read: this.readCount, from: at, source });
  }

  /** Where the last units begin that may be the beginning of a text; Infinity: nothing has begun. */
  begun(): number {
    const begun = this.automaton.begun(this.node);
    return begun === 0 ? Infinity : this.startOf(this.readCount - begun);
  }

  /** Forgets the runs before what has begun. */
  forgetRuns(): void {
    const begun = this.automaton.begun(this.node);
    if (begun === 0) this.runs = [];
    else this.runs.splice(0, this.runOf(this.readCount - begun));
  }

  private readLine(source: Located, from: number, to: number): void {
    let at = from;
    if (this.isLineEmpty) while (at < to && isBlank(source.text.charCodeAt(at))) at += 1;
    if (at >= to) return;
    this.isLineEmpty = false;
    this.search(source.text, at, to, { read: this.readCount, from: at, source });
  }

  private search(text: string, from: number, to: number, run: Run): void {
    this.runs.push(run);
    this.node = this.automaton.search(this.node, text, from, to, this);
    this.readCount += to - from;
  }

  /** Where a unit that the automaton has read begins in the original. */
  private startOf(unit: number): number {
    const run = this.runs[this.runOf(unit)];
    return run === undefined ? 0 : offsetAt(run.source, unit - run.read + run.from);
  }

  /** The index of the run that has a unit. */
  private runOf(unit: number): number {
    const { runs } = this;
    let first = 0;
    let last = runs.length - 1;
    while (first < last) {
      const middle = (first + last + 1) >>> 1;
      if (Number(runs[middle]?.read) <= unit) first = middle;
      else last = middle - 1;
    }
    return first;
  }
}

/** The offset of a unit, or that of the unit that follows it by `next`. */
function offsetAt({ shift, offsets }: Omit<Located, 'text'>, unit: number, next = 0): number {
  return shift + (offsets?.[unit + next] ?? unit + next);
}

function isBreak(unit: number): boolean {
  return unit === 0x0a || unit === 0x0d;
}

function isBlank(unit: number): boolean {
  return unit === 0x20 || unit === 0x09 || unit === 0x0b || unit === 0x0c;
}

function trimmedEnd(text: string, from: number, to: number): number {
  let end = to;
  while (end > from && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return end;
}

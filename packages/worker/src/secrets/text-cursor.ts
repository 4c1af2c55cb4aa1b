import { beginning, type TextAutomaton } from './text-automaton.js';

/**
 * Parts of what was read, ascending and disjoint: of each the offset of its first unit, then that of the unit after it. A list of
 * numbers, because there may be one for every few units.
 */
export type Spans = number[];

const LINE_FEED = '\n';

/** So many runs are kept without a look at whether they are needed. */
const MANY_RUNS = 64;

/** A text in which each unit has an offset in the original. */
export interface Located {
  readonly text: string;
  /** Offset of the first unit. */
  readonly shift: number;
  /** Offset of each unit and of the end, from `shift`; null: each unit is one of the original. */
  readonly offsets: Int32Array | null;
}

/** Units that the automaton has read in a row. */
interface Run {
  /** Number of units that it has read before. */
  readonly read: number;
  readonly source: Located;
  /** The first of them in the text. */
  readonly from: number;
}

/**
 * Searches in a text that arrives in pieces. Line breaks count as one line feed each, without the blanks around them and without
 * blank lines. Results are offsets in the original text.
 */
export class TextCursor {
  private readonly state = beginning();
  private readCount = 0;
  private runs: Run[] = [];
  /** In units that the automaton has read. */
  private found: Spans = [];
  private isLineEmpty = true;
  private readonly onFound: (end: number, length: number) => void;
  /** What `onFound` adds to an end. */
  private ahead = 0;

  constructor(private readonly automaton: TextAutomaton) {
    this.onFound = (end, length) => addSpan(this.found, this.ahead + end - length, this.ahead + end);
  }

  /** A cursor that goes on like this one; what this one has found is not its result. */
  fork(): TextCursor {
    const fork = new TextCursor(this.automaton);
    Object.assign(fork.state, this.state);
    fork.readCount = this.readCount;
    fork.runs = [...this.runs];
    fork.isLineEmpty = this.isLineEmpty;
    return fork;
  }

  /** Reads the units of the text. @param isLineEnd whether a line ends with it */
  read(source: Located, isLineEnd: boolean): void {
    const { text } = source;
    const breaksEnd = text.includes('\n') || text.includes('\r') ? text.length : 0;
    let from = 0;
    for (let at = 0; at < breaksEnd; at++) {
      if (!isBreak(text.charCodeAt(at))) continue;
      this.readLine(source, from, trimmedEnd(text, from, at));
      this.endLine(source, at);
      from = at + 1;
    }
    this.readLine(source, from, isLineEnd ? trimmedEnd(text, from, text.length) : text.length);
  }

  /** A line break, which is the unit of the text at `at`. */
  endLine(source: Located, at: number): void {
    if (this.isLineEmpty) return;
    this.isLineEmpty = true;
    this.search(LINE_FEED, 0, 1, { read: this.readCount, source, from: at });
  }

  /** Where the last units begin that may be the beginning of a text; Infinity: nothing has begun. */
  begun(): number {
    const begun = this.automaton.begun(this.state);
    if (begun === 0) return Infinity;
    const first = this.readCount - begun;
    const run = this.runs.findLast(({ read }) => read <= first);
    return run === undefined ? 0 : startOf(run, first);
  }

  /** What was found since the last call. A later one may overlap with it. */
  take(): Spans {
    const { runs, found } = this;
    if (runs.length > MANY_RUNS) this.forgetRuns();
    if (found.length === 0) return found;
    this.found = [];
    let index = 0;
    for (let at = 0; at < found.length; at += 2) {
      const start = found[at] ?? 0;
      const end = found[at + 1] ?? 0;
      while ((runs[index + 1]?.read ?? Infinity) <= start) index += 1;
      const first = runs[index];
      while ((runs[index + 1]?.read ?? Infinity) < end) index += 1;
      const last = runs[index];
      if (first !== undefined) found[at] = startOf(first, start);
      if (last !== undefined) found[at + 1] = startOf(last, end - 1, 1);
    }
    return found;
  }

  private readLine(source: Located, from: number, to: number): void {
    const { text } = source;
    let at = from;
    if (this.isLineEmpty) while (at < to && isBlank(text.charCodeAt(at))) at += 1;
    if (at >= to) return;
    this.isLineEmpty = false;
    this.search(text, at, to, { read: this.readCount, source, from: at });
  }

  private search(text: string, from: number, to: number, run: Run): void {
    this.runs.push(run);
    this.ahead = this.readCount - from;
    this.automaton.search(this.state, text, from, to, this.onFound);
    this.readCount += to - from;
  }

  /** Forgets the runs before what has begun. */
  private forgetRuns(): void {
    const first = this.readCount - this.automaton.begun(this.state);
    const index = this.runs.findLastIndex(({ read }) => read <= first);
    if (index > 0) this.runs = this.runs.slice(index);
  }
}

/** Adds a span that ends, or begins, behind all others. Those that it overlaps with become a part of it. */
export function addSpan(spans: Spans, start: number, end: number): void {
  let first = start;
  let last = end;
  let at = spans.length;
  while (at > 0 && Number(spans[at - 1]) > first) {
    at -= 2;
    first = Math.min(first, Number(spans[at]));
    last = Math.max(last, Number(spans[at + 1]));
  }
  if (at === spans.length) {
    spans.push(first, last);
    return;
  }
  spans[at] = first;
  spans[at + 1] = last;
  if (at + 2 < spans.length) spans.length = at + 2;
}

/** Where a unit that the automaton has read begins in the original, or the unit that follows it by `next`. */
function startOf({ read, source, from }: Run, unit: number, next = 0): number {
  const at = unit - read + from + next;
  return source.shift + (source.offsets?.[at] ?? at);
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

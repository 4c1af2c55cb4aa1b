import { beginning, type Findings, type TextAutomaton } from './text-automaton.js';

const LINE_FEED = Uint16Array.of(0x0a);

/** A text in which each unit has an offset in the original. */
interface Located {
  /** Its units from `from` to `to`. They are not kept. */
  readonly units: Uint16Array;
  readonly from: number;
  readonly to: number;
  /** Whether it has line breaks. */
  readonly hasBreaks: boolean;
  /** Offset of the first of `units`. */
  readonly shift: number;
  /** Offset of each of `units` and of the end, from `shift`; null: each is one of the original. */
  readonly offsets: Int32Array | null;
}

/** Units that the automaton has read in a row. */
interface Run extends Pick<Located, 'shift' | 'offsets'> {
  /** Number of units that it has read before. */
  readonly read: number;
  /** The first of them in `units`. */
  readonly from: number;
}

/**
 * Searches in a text that arrives in pieces. Line breaks count as one line feed each, without the blanks around them and without
 * blank lines. Results are offsets in the original text.
 */
export class TextCursor implements Findings {
  /** What was found, by offsets, until it is cleared. A later part may overlap with it. */
  readonly found = new Spans();
  private state = beginning();
  private readCount = 0;
  private runs: Run[] = [];
  private isLineEmpty = true;
  /** The last. */
  private run: Run = { read: 0, from: 0, shift: 0, offsets: null };

  /** @param texts collects the numbers of those that are found; null: it is not asked for */
  constructor(
    private readonly automaton: TextAutomaton,
    private readonly texts: Set<number> | null,
  ) {}

  /** Goes on like another cursor; what that one has found is not its result. */
  follow(other: TextCursor): void {
    this.state = { ...other.state };
    this.readCount = other.readCount;
    this.runs = [...other.runs];
    this.isLineEmpty = other.isLineEmpty;
  }

  /** Nothing has been read. */
  restart(): void {
    this.state = beginning();
    this.found.clear();
    this.runs = [];
    this.readCount = 0;
    this.isLineEmpty = true;
  }

  /** For the automaton: a text of `length` units ends before the unit `end` of the run. */
  add(end: number, text: number, length: number): void {
    const { run } = this;
    const start = end - length;
    this.found.add(
      start < run.from ? this.startOf(run.read + start - run.from) : offsetAt(run, start),
      offsetAt(run, end - 1, 1),
    );
    this.texts?.add(text);
  }

  /** @param isLineEnd whether a line ends with the text */
  read(source: Located, isLineEnd: boolean): void {
    const { units, to, hasBreaks } = source;
    let from = source.from;
    const breaksEnd = hasBreaks ? to : from;
    for (let at = from; at < breaksEnd; at++) {
      if (!isBreak(Number(units[at]))) continue;
      this.readLine(source, from, trimmedEnd(units, from, at));
      this.endLine(source, at);
      from = at + 1;
    }
    this.readLine(source, from, isLineEnd ? trimmedEnd(units, from, to) : to);
  }

  /** A line break, which is the unit of the text at `at`. */
  endLine({ shift, offsets }: Pick<Located, 'shift' | 'offsets'>, at: number): void {
    if (this.isLineEmpty) return;
    this.isLineEmpty = true;
    this.search(LINE_FEED, 0, 1, { read: this.readCount, from: at, shift, offsets });
  }

  /** Where the last units begin that may be the beginning of a text; Infinity: nothing has begun. */
  begun(): number {
    const begun = this.automaton.begun(this.state);
    return begun === 0 ? Infinity : this.startOf(this.readCount - begun);
  }

  private readLine({ units, shift, offsets }: Located, from: number, to: number): void {
    let at = from;
    if (this.isLineEmpty) while (at < to && isBlank(Number(units[at]))) at += 1;
    if (at >= to) return;
    this.isLineEmpty = false;
    this.search(units, at, to, { read: this.readCount, from: at, shift, offsets });
  }

  private search(units: Uint16Array, at: number, to: number, run: Run): void {
    this.run = run;
    this.runs.push(run);
    this.automaton.search(this.state, units, at, to, this);
    this.readCount += to - at;
  }

  /** Forgets the runs before what has begun. */
  forgetRuns(): void {
    const begun = this.automaton.begun(this.state);
    if (begun === 0) this.runs = [];
    else this.runs.splice(0, this.runOf(this.readCount - begun));
  }

  /** Where a unit that the automaton has read begins in the original. */
  private startOf(unit: number): number {
    const run = this.runs[this.runOf(unit)] ?? this.run;
    return offsetAt(run, unit - run.read + run.from);
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

/** The offset of a unit of a run, or that of the unit that follows it by `next`. */
function offsetAt({ shift, offsets }: Run, unit: number, next = 0): number {
  return shift + (offsets?.[unit + next] ?? unit + next);
}

function isBreak(unit: number): boolean {
  return unit === 0x0a || unit === 0x0d;
}

function isBlank(unit: number): boolean {
  return unit === 0x20 || unit === 0x09 || unit === 0x0b || unit === 0x0c;
}

function trimmedEnd(units: Uint16Array, from: number, to: number): number {
  let end = to;
  while (end > from && isBlank(Number(units[end - 1]))) end -= 1;
  return end;
}

/**
 * Parts of a text by offsets, ascending and disjoint. The memory is used again after {@link clear}, because a text may have a part
 * every few units.
 */
export class Spans {
  /** Of each part the offset of its first unit, then that of the unit after it. */
  private readonly offsets: number[] = [];
  private first = 0;
  private end = 0;

  get isEmpty(): boolean {
    return this.first === this.end;
  }

  /** Number of parts. */
  get count(): number {
    return (this.end - this.first) / 2;
  }

  /** Where a part begins. */
  startAt(index: number): number {
    return Number(this.offsets[this.first + 2 * index]);
  }

  /** Where a part ends. */
  endAt(index: number): number {
    return Number(this.offsets[this.first + 2 * index + 1]);
  }

  /** Adds a part that ends, or begins, behind all others. Those that it overlaps with become a part of it. */
  add(start: number, end: number): void {
    const { offsets } = this;
    let first = start;
    let last = end;
    while (this.end > this.first && Number(offsets[this.end - 1]) > first) {
      this.end -= 2;
      first = Math.min(first, Number(offsets[this.end]));
      last = Math.max(last, Number(offsets[this.end + 1]));
    }
    offsets[this.end] = first;
    offsets[this.end + 1] = last;
    this.end += 2;
  }

  /** Removes the first parts. */
  forget(count: number): void {
    const { offsets } = this;
    this.first += 2 * count;
    if (2 * this.first < this.end) return;
    offsets.copyWithin(0, this.first, this.end);
    this.end -= this.first;
    this.first = 0;
  }

  clear(): void {
    this.first = 0;
    this.end = 0;
  }
}

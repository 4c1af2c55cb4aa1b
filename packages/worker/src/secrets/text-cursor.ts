import type { SearchState, TextAutomaton } from './text-automaton.js';

/** A part of what was read: the offsets of its first unit and of the unit after it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const LINE_FEED = '\n';

/** Units that the automaton reads in a row, of which each stands for `width` units of the original. */
interface Run {
  /** Number of units that the automaton has read before. */
  readonly read: number;
  /** Offset in the original. */
  readonly start: number;
  /** 1 but for an escape, which is a run alone. */
  readonly width: number;
}

/**
 * Searches in a text that arrives in pieces. Line breaks count as one line feed each, without the blanks around them and without
 * blank lines. Results are offsets in the original text.
 */
export class TextCursor {
  private readonly state: SearchState = { node: 0, high: 0, low: 0 };
  private readCount = 0;
  private runs: Run[] = [];
  /** In units that the automaton has read: ascending and disjoint. */
  private found: Span[] = [];
  private isLineEmpty = true;

  constructor(private readonly automaton: TextAutomaton) {}

  /** A cursor that goes on like this one; what this one has found is not its result. */
  fork(): TextCursor {
    const fork = new TextCursor(this.automaton);
    Object.assign(fork.state, this.state);
    fork.readCount = this.readCount;
    fork.runs = [...this.runs];
    fork.isLineEmpty = this.isLineEmpty;
    return fork;
  }

  /**
   * Reads the units of `text` from `from` to `to`, which have no line break.
   * @param shift offset of the text in the original
   */
  read(text: string, from: number, to: number, shift: number): void {
    let at = from;
    if (this.isLineEmpty) while (at < to && isBlank(text.charCodeAt(at))) at += 1;
    if (at >= to) return;
    this.isLineEmpty = false;
    this.mark(shift + at, 1);
    const offset = this.readCount - at;
    this.automaton.search(this.state, text, at, to, (end, length) =>
      this.add(offset + end - length, offset + end),
    );
    this.readCount += to - at;
  }

  /** Reads the unit that an escape at `start` of the original stands for. */
  readEscape(unit: number, start: number, width: number): void {
    if (this.isLineEmpty && isBlank(unit)) return;
    this.isLineEmpty = false;
    this.readOne(String.fromCharCode(unit), start, width);
  }

  breakLine(start: number, width: number): void {
    if (this.isLineEmpty) return;
    this.readOne(LINE_FEED, start, width);
    this.isLineEmpty = true;
  }

  /** Where the last units begin that may be the beginning of a text; Infinity: nothing has begun. */
  begun(): number {
    const begun = this.automaton.begun(this.state);
    if (begun === 0) return Infinity;
    const first = this.readCount - begun;
    const run = this.runs.findLast(({ read }) => read <= first);
    return run === undefined ? 0 : run.start + first - run.read;
  }

  /** What was found since the last call: ascending and disjoint. A later one may overlap with it. */
  take(): Span[] {
    const { runs, found } = this;
    let index = 0;
    /** The run of a unit; the units ascend from call to call. */
    const runOf = (unit: number): Run | undefined => {
      while (Number(runs[index + 1]?.read ?? Infinity) <= unit) index += 1;
      return runs[index];
    };
    const spans = found.map(({ start, end }): Span => {
      const first = runOf(start);
      const last = runOf(end - 1);
      return {
        start: first === undefined ? 0 : first.start + start - first.read,
        end: last === undefined ? 0 : last.start + end - 1 - last.read + last.width,
      };
    });
    if (found.length > 0) this.found = [];
    this.forgetRuns();
    return spans;
  }

  /** Forgets the runs before what has begun. */
  private forgetRuns(): void {
    const first = this.readCount - this.automaton.begun(this.state);
    const index = this.runs.findLastIndex(({ read }) => read <= first);
    if (index > 0) this.runs = this.runs.slice(index);
  }

  private readOne(unit: string, start: number, width: number): void {
    this.mark(start, width);
    const end = this.readCount + 1;
    this.automaton.search(this.state, unit, 0, 1, (_, length) => this.add(end - length, end));
    this.readCount = end;
  }

  private mark(start: number, width: number): void {
    const { readCount: read, runs } = this;
    const last = runs.at(-1);
    const isContinued = last?.width === 1 && width === 1 && start - last.start === read - last.read;
    if (!isContinued) runs.push({ read, start, width });
  }

  private add(from: number, end: number): void {
    let start = from;
    for (let last = this.found.at(-1); last !== undefined && last.end > start; last = this.found.at(-1)) {
      start = Math.min(start, last.start);
      this.found.pop();
    }
    this.found.push({ start, end });
  }
}

/** A space, a tab or a form feed. */
export function isBlank(unit: number): boolean {
  return unit === 0x20 || unit === 0x09 || unit === 0x0b || unit === 0x0c;
}

import { NOTHING_READ, type OutputEnds } from '../runtime/runtime.js';
import { storable, type LogChunk, type ShippedLine } from '../service-api/service-api.js';

/** The service's limit of a line, in UTF-16 units. */
export const MAX_TEXT = 16_384;

/** The service's limit of lines in a chunk. */
export const MAX_CHUNK_LINES = 5_000;

/** Memory a line uses besides its text, in bytes. */
const LINE_OVERHEAD = 100;

/** Limits of memory and chunks. */
export interface ChunkerBounds {
  /** Memory of the oldest lines, which are sent next, in bytes; the newest lines may use the same amount. */
  readonly heldBytes: number;
  /** Number of lines that fill a chunk. */
  readonly enoughLines: number;
  /** Maximum size of a chunk, in bytes. */
  readonly chunkBytes: number;
}

const CHUNKER_BOUNDS: ChunkerBounds = {
  heldBytes: 2 * 2 ** 20,
  enoughLines: 1_000,
  chunkBytes: 256 * 1024,
};

/** Lines that are sent together. */
export interface TakenChunk extends LogChunk {
  /** For each line, how much of the output has come up to its end; null: that is not counted. */
  readonly endsOfLines: readonly (OutputEnds | null)[];
}

/**
 * Divides a log into chunks in bounded memory. When lines arrive faster than chunks are taken, it keeps the oldest lines
 * (sent next) and the newest (they show the end), drops those between, and the next chunk names the gap.
 */
export class LogChunker {
  /** The oldest lines, without a gap. */
  private head = new LineQueue();
  /** The newest lines, added while the head is full. `tailGap` precedes them. */
  private tail = new LineQueue();
  private chunkBytes: number;
  /** Halves of a chunk that was too large. */
  private readonly parts: Omit<TakenChunk, 'isLast'>[] = [];
  /** Bytes of taken chunks that were dropped. */
  private droppedBytes = 0;
  /** Bytes dropped before the head. */
  private headGap = 0;
  /** Dropped between head and tail. */
  private tailGap = { lines: 0, bytes: 0 };
  private hasEnded = false;
  /** Lines below are stored: they are counted and dropped. */
  private firstWanted = 0;
  /** Up to the newest line. */
  private ends: OutputEnds | null = null;

  /** Lines up to here are stored, and dropped before they are taken. No chunk ends before. */
  private stored: OutputEnds = NOTHING_READ;

  /** @param count lines that an earlier process has stored, which are not pushed */
  constructor(
    private readonly bounds: ChunkerBounds = CHUNKER_BOUNDS,
    private count = 0,
  ) {
    this.chunkBytes = bounds.chunkBytes;
  }

  /** Whether no line waits. */
  get isEmpty(): boolean {
    return this.head.length === 0 && this.parts.length === 0;
  }

  /** Number of lines so far, dropped ones among them. */
  get lineCount(): number {
    return this.count;
  }

  /** Whether to take the next chunk without waiting for more lines. */
  get isChunkReady(): boolean {
    const { head, tail, bounds } = this;
    const isLarge = head.length >= bounds.enoughLines || head.heldBytes >= this.chunkBytes;
    return this.hasEnded || isLarge || tail.length > 0 || this.parts.length > 0;
  }

  /** Whether the next line can be added without dropping any. */
  get hasRoom(): boolean {
    return this.heldBytes < (this.bounds.heldBytes * 3) / 4;
  }

  /** Memory of the waiting lines, in bytes. */
  get heldBytes(): number {
    return this.head.heldBytes + this.tail.heldBytes;
  }

  /** Adds a line. Splits it when it exceeds the service's limit. */
  push({ atMs, stream, text, isContinued, end }: ShippedLine): void {
    const clean = storable(text);
    const ends = end === undefined ? this.ends : { ...(this.ends ?? NOTHING_READ), [stream]: end };
    if (clean.length <= MAX_TEXT) {
      this.add({ atMs, stream, text: clean, isContinued, end }, ends);
    } else {
      const pieces = piecesOf(clean);
      for (const [index, piece] of pieces.entries()) {
        const isLast = index === pieces.length - 1;
        const line = { atMs, stream, text: piece, isContinued: isContinued || index > 0, end };
        this.add(line, isLast ? ends : this.ends, index > 0);
      }
    }
    this.ends = ends;
  }

  /** Earlier processes have stored the output up to here. */
  goOnFrom(stored: OutputEnds): void {
    this.stored = stored;
  }

  /** No line follows. */
  end(): void {
    this.hasEnded = true;
  }

  /** The next lines, or null. The last chunk after the end may be empty. */
  take(): TakenChunk | null {
    if (this.isEmpty && !this.hasEnded) return null;
    const chunk = this.parts.shift() ?? this.cutChunk();
    if (chunk.lines.length === 0 && !(this.hasEnded && this.isEmpty)) return null;
    const skippedBytes = chunk.skippedBytes + this.droppedBytes;
    this.droppedBytes = 0;
    return { ...chunk, skippedBytes, isLast: this.hasEnded && this.isEmpty };
  }

  /** Returns a chunk of several lines that is too large: its halves come next, and later chunks are smaller. */
  split(chunk: TakenChunk): void {
    const half = middleOf(chunk.lines);
    const first = {
      ...chunk,
      lines: chunk.lines.slice(0, half),
      endsOfLines: chunk.endsOfLines.slice(0, half),
    };
    this.parts.unshift(first, withoutFirst(chunk, half));
    this.chunkBytes /= 2;
  }

  /** Drops a taken chunk; the next one names the gap. */
  drop({ lines, skippedBytes }: Pick<LogChunk, 'lines' | 'skippedBytes'>): void {
    this.droppedBytes += lines.reduce((sum, { text }) => sum + Buffer.byteLength(text), skippedBytes);
  }

  /**
   * Continues at a line, as another process has stored all before it: later lines of a taken chunk come again next, and
   * waiting ones before it are dropped.
   */
  resumeAt(line: number, chunk: TakenChunk): void {
    this.firstWanted = line;
    const rest = withoutFirst(chunk, Math.max(0, line - chunk.firstLine));
    const parts = this.parts.splice(0);
    this.shiftStored();
    if (rest.lines.length > 0) this.parts.push(rest);
    // Halves of an earlier chunk follow it.
    this.parts.push(...parts.filter((part) => part.firstLine >= line));
  }

  /**
   * Goes on at a line, as the last chunk of an earlier process arrived after its end: what this one has is dropped.
   * @param chunk that was taken first, and is not stored
   */
  goOnAfter(line: number, stored: OutputEnds, chunk: TakenChunk): void {
    this.stored = stored;
    let firstLine = line;
    for (const part of [chunk, ...this.parts.splice(0)]) {
      const isWanted = part.lines.map((one) => !this.isStored(one));
      const lines = part.lines.filter((_, n) => isWanted[n]);
      const endsOfLines = part.endsOfLines
        .filter((_, n) => isWanted[n])
        .map((ends) => this.atLeastStored(ends));
      if (lines.length > 0) this.parts.push({ ...part, firstLine, lines, endsOfLines });
      firstLine += lines.length;
    }
    this.count += firstLine - this.headLine;
  }

  private isStored({ stream, end }: ShippedLine): boolean {
    return end !== undefined && end <= this.stored[stream];
  }

  private atLeastStored(ends: OutputEnds | null): OutputEnds | null {
    const { stdout, stderr } = this.stored;
    return ends && { stdout: Math.max(ends.stdout, stdout), stderr: Math.max(ends.stderr, stderr) };
  }

  /** Drops the waiting lines; the next chunk names the gap. */
  dropWaiting(): void {
    while (!this.isEmpty) {
      this.drop(this.parts.shift() ?? this.cutChunk());
    }
  }

  private get headLine(): number {
    return this.count - this.tail.length - this.tailGap.lines - this.head.length;
  }

  private shiftStored(): void {
    while (this.head.length > 0 && this.headLine < this.firstWanted) {
      this.head.shift();
      this.headGap = 0;
      if (this.head.length === 0) this.moveTailToHead();
    }
  }

  private cutChunk(): Omit<TakenChunk, 'isLast'> {
    const { headLine: firstLine } = this;
    const lines: ShippedLine[] = [];
    const endsOfLines: (OutputEnds | null)[] = [];
    let room = this.chunkBytes;
    for (let next = this.head.peek(); next !== null; next = this.head.peek()) {
      if (this.isStored(next.line)) {
        this.head.shift();
        this.count -= 1;
        continue;
      }
      room -= costOf(next);
      // A cursor is between lines: pieces of a line come together.
      const isFull = lines.length === MAX_CHUNK_LINES || (room < 0 && !next.isPiece);
      if (lines.length > 0 && isFull) break;
      lines.push(next.line);
      endsOfLines.push(this.atLeastStored(next.ends));
      this.head.shift();
    }
    const skippedBytes = this.headGap;
    this.headGap = 0;
    if (this.head.length === 0) this.moveTailToHead();
    return { firstLine, lines, skippedBytes, endsOfLines };
  }

  private add(line: ShippedLine, ends: OutputEnds | null, isPiece = false): void {
    const queued = { line, bytes: Buffer.byteLength(line.text), ends, isPiece };
    this.count += 1;
    if (this.count <= this.firstWanted) return;
    const max = this.bounds.heldBytes;
    const { head, tail } = this;
    const fits = head.length === 0 || head.heldBytes + costOf(queued) <= max;
    if (fits && tail.length === 0) {
      head.push(queued);
      return;
    }
    tail.push(queued);
    while (tail.heldBytes > max && tail.length > 1) {
      this.tailGap.bytes += tail.shift()?.bytes ?? 0;
      this.tailGap.lines += 1;
    }
  }

  private moveTailToHead(): void {
    this.head = this.tail;
    this.headGap = this.tailGap.bytes;
    this.tail = new LineQueue();
    this.tailGap = { lines: 0, bytes: 0 };
  }
}

/** The rest of a chunk. */
function withoutFirst(chunk: Omit<TakenChunk, 'isLast'>, count: number): Omit<TakenChunk, 'isLast'> {
  return {
    firstLine: chunk.firstLine + count,
    lines: chunk.lines.slice(count),
    skippedBytes: count > 0 ? 0 : chunk.skippedBytes,
    endsOfLines: chunk.endsOfLines.slice(count),
  };
}

/** How many lines the first half has. A cursor is between lines: pieces of a line stay together if there are others. */
function middleOf(lines: readonly ShippedLine[]): number {
  const half = Math.ceil(lines.length / 2);
  const cuts = lines.flatMap((line, n) => (n === 0 || goesOnWith(line, lines[n - 1]) ? [] : [n]));
  return cuts.toSorted((a, b) => Math.abs(a - half) - Math.abs(b - half))[0] ?? half;
}

/** Whether a line goes on with the one before, of an output whose bytes are counted. */
function goesOnWith({ stream, end }: ShippedLine, before: ShippedLine | undefined): boolean {
  return end !== undefined && end === before?.end && stream === before.stream;
}

/** Splits a text at the service's limit, between characters. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let from = 0; from < text.length;) {
    const end = from + MAX_TEXT;
    const splitsPair = end < text.length && isLowSurrogate(text.charCodeAt(end));
    pieces.push(text.slice(from, splitsPair ? end - 1 : end));
    from = splitsPair ? end - 1 : end;
  }
  return pieces;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

interface QueuedLine {
  readonly line: ShippedLine;
  /** Length of its text in UTF-8. */
  readonly bytes: number;
  /** As those of a chunk that ends with it. */
  readonly ends: OutputEnds | null;
  /** Whether it goes on with the line that was pushed with the one before. */
  readonly isPiece: boolean;
}

/** A queue of lines that counts the memory they use. */
class LineQueue {
  private items: (QueuedLine | undefined)[] = [];
  private start = 0;
  private cost = 0;

  get length(): number {
    return this.items.length - this.start;
  }

  get heldBytes(): number {
    return this.cost;
  }

  push(queued: QueuedLine): void {
    this.items.push(queued);
    this.cost += costOf(queued);
  }

  shift(): QueuedLine | null {
    const first = this.items[this.start];
    if (first === undefined) return null;
    this.items[this.start] = undefined;
    this.start += 1;
    this.cost -= costOf(first);
    // Copying when the smaller part is left moves each line once on average.
    if (this.start * 2 > this.items.length) {
      this.items = this.items.slice(this.start);
      this.start = 0;
    }
    return first;
  }

  peek(): QueuedLine | null {
    return this.items[this.start] ?? null;
  }
}

function costOf({ bytes }: QueuedLine): number {
  return bytes + LINE_OVERHEAD;
}

import { costOf, LineQueue } from './line-queue.js';
import type { LogChunk, ShippedLine } from '../service-api/service-api.js';
import { storable } from './storable-text.js';

/** Longest text of a line that the service takes, in UTF-16 units. */
export const MAX_TEXT = 16_384;

/** Most lines that the service takes in a chunk. */
export const MAX_CHUNK_LINES = 5_000;

/** How much is held and handed out. */
export interface ChunkerBounds {
  /** Bytes that the oldest lines, those sent next, may hold; the newest may hold as many again. */
  readonly heldBytes: number;
  /** From how many lines on they are worth a chunk. */
  readonly enoughLines: number;
  /** From how many bytes of lines on they are worth a chunk, and as many as a chunk has at most. */
  readonly chunkBytes: number;
}

export const CHUNKER_BOUNDS: ChunkerBounds = {
  heldBytes: 2 * 2 ** 20,
  enoughLines: 1_000,
  chunkBytes: 256 * 1024,
};

/**
 * Makes numbered chunks of an endless log in bounded memory. Every line is in one chunk, in order, or was left out: when
 * chunks are taken more slowly than lines come, the oldest are kept (they are sent next) and the newest (they say how
 * it ended); the middle goes, and the next chunk names the gap.
 */
export class LogChunker {
  /** Next to each other, and to what was handed out before unless `gapBytes` says otherwise. */
  private head = new LineQueue();
  /** What came when the head was full; between the two, lines may be missing. */
  private tail = new LineQueue();
  private count = 0;
  private chunkBytes: number;
  /** Parts of a chunk that was too large. */
  private readonly parts: Omit<LogChunk, 'isLast'>[] = [];
  /** Bytes that were handed out last and then left out. */
  private leftOut = 0;
  /** Bytes left out before the head. */
  private headGap = 0;
  /** What was left out between head and tail. */
  private tailGap = { lines: 0, bytes: 0 };
  private hasEnded = false;

  constructor(private readonly bounds: ChunkerBounds = CHUNKER_BOUNDS) {
    this.chunkBytes = bounds.chunkBytes;
  }

  /** Whether nothing waits to be taken. */
  get isEmpty(): boolean {
    return this.head.length === 0 && this.parts.length === 0;
  }

  /** Whether waiting longer would not make the next chunk better. */
  get hasEnough(): boolean {
    const { head, tail, bounds } = this;
    const isLarge = head.length >= bounds.enoughLines || head.heldBytes >= this.chunkBytes;
    return this.hasEnded || isLarge || tail.length > 0 || this.parts.length > 0;
  }

  /** What the lines that wait hold of memory, in bytes. */
  get heldBytes(): number {
    return this.head.heldBytes + this.tail.heldBytes;
  }

  /** Adds a line; one that is too long for the service becomes several. */
  push({ atMs, stream, text, isContinued }: ShippedLine): void {
    const clean = storable(text);
    if (clean.length <= MAX_TEXT) {
      this.add({ atMs, stream, text: clean, isContinued });
      return;
    }
    for (const [index, piece] of piecesOf(clean).entries()) {
      this.add({ atMs, stream, text: piece, isContinued: isContinued || index > 0 });
    }
  }

  /** Says that no line comes any more. */
  end(): void {
    this.hasEnded = true;
  }

  /**
   * The next lines; the last chunk after the end may be empty.
   * @returns null when there is nothing to send
   */
  take(): LogChunk | null {
    if (this.isEmpty && !this.hasEnded) return null;
    const chunk = this.parts.shift() ?? this.cutChunk();
    const skippedBytes = chunk.skippedBytes + this.leftOut;
    this.leftOut = 0;
    return { ...chunk, skippedBytes, isLast: this.hasEnded && this.isEmpty };
  }

  /** Takes a chunk of several lines back that is too large for the service: its halves come next, and smaller ones after. */
  split({ firstLine, lines, skippedBytes }: LogChunk): void {
    const half = Math.ceil(lines.length / 2);
    this.parts.unshift(
      { firstLine, lines: lines.slice(0, half), skippedBytes },
      { firstLine: firstLine + half, lines: lines.slice(half), skippedBytes: 0 },
    );
    this.chunkBytes /= 2;
  }

  /** Takes a chunk back that the service does not want: its lines are left out, and the next chunk says so. */
  leaveOut({ lines, skippedBytes }: LogChunk): void {
    this.leftOut += lines.reduce((sum, { text }) => sum + Buffer.byteLength(text), skippedBytes);
  }

  private cutChunk(): Omit<LogChunk, 'isLast'> {
    const firstLine = this.count - this.tail.length - this.tailGap.lines - this.head.length;
    const lines: ShippedLine[] = [];
    let room = this.chunkBytes;
    for (let next = this.head.peek(); next !== null; next = this.head.peek()) {
      room -= costOf(next);
      if (lines.length > 0 && (room < 0 || lines.length === MAX_CHUNK_LINES)) break;
      lines.push(next.line);
      this.head.shift();
    }
    const skippedBytes = this.headGap;
    this.headGap = 0;
    if (this.head.length === 0) this.goOnWithTail();
    return { firstLine, lines, skippedBytes };
  }

  private add(line: ShippedLine): void {
    const queued = { line, bytes: Buffer.byteLength(line.text) };
    this.count += 1;
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

  private goOnWithTail(): void {
    this.head = this.tail;
    this.headGap = this.tailGap.bytes;
    this.tail = new LineQueue();
    this.tailGap = { lines: 0, bytes: 0 };
  }
}

/** Cuts a text into pieces that the service takes, between characters. */
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

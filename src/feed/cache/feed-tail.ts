import type { FeedEntry } from './feed-entry.js';

/** Estimated bytes of a tail without entries. */
const EMPTY_BYTES = 500;

/** The share of its bytes that a tail keeps when it has too many, so that it is not cut at every event. */
const KEPT = 0.75;

/** All entries of a feed after one position up to another. */
export interface FeedPart {
  /** Position after which it starts. */
  readonly from: number;
  /** Position up to which it holds all entries. There is none at positions whose rows were removed by hand. */
  readonly to: number;
  /** Oldest first. */
  readonly entries: readonly FeedEntry[];
}

export interface PageLimits {
  readonly limit: number;
  /** Bytes at which a page ends; its first entry may be larger. */
  readonly maxBytes: number;
}

/** The part of a topic's feed that ends with its newest known entry. */
export class FeedTail implements FeedPart {
  #from: number;
  #to: number;
  #entries: FeedEntry[];
  #bytes: number;

  constructor(
    part: FeedPart,
    private readonly maxBytes: number,
  ) {
    this.#from = part.from;
    this.#to = part.to;
    this.#entries = [...part.entries];
    this.#bytes = EMPTY_BYTES + memoryOf(part.entries);
    this.#cut();
  }

  get from(): number {
    return this.#from;
  }

  get to(): number {
    return this.#to;
  }

  get entries(): readonly FeedEntry[] {
    return this.#entries;
  }

  /** Estimated bytes of memory. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds what a part that overlaps or touches this one has beyond it. @returns false if there is a gap between them */
  merge(part: FeedPart): boolean {
    if (part.from > this.#to || part.to < this.#from) return false;
    if (part.to > this.#to) {
      const newer = part.entries.filter(({ position }) => position > this.#to);
      this.#entries.push(...newer);
      this.#bytes += memoryOf(newer);
      this.#to = part.to;
      this.#cut();
    }
    if (part.from < this.#from) {
      const older = part.entries.filter(({ position }) => position <= this.#from);
      const bytes = memoryOf(older);
      if (this.#bytes + bytes > this.maxBytes) return true;
      this.#entries.unshift(...older);
      this.#bytes += bytes;
      this.#from = part.from;
    }
    return true;
  }

  /** The part for a page that begins after a position; undefined if the tail does not reach back to it. */
  page(start: number, { limit, maxBytes }: PageLimits): FeedPart | undefined {
    if (start < this.#from || start > this.#to) return undefined;
    const first = this.#indexBehind(start);
    let end = first;
    for (let bytes = 0; end < this.#entries.length && end - first < limit && bytes < maxBytes; end += 1) {
      bytes += this.#entries[end]?.bytes ?? 0;
    }
    const entries = this.#entries.slice(first, end);
    const isCut = end < this.#entries.length;
    return { from: start, to: isCut ? (entries.at(-1)?.position ?? start) : this.#to, entries };
  }

  #indexBehind(position: number): number {
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const entry = this.#entries[middle];
      if (entry !== undefined && entry.position <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Forgets the oldest entries if there are too many bytes; keeps the newest one whatever its size. */
  #cut(): void {
    if (this.#bytes <= this.maxBytes) return;
    let count = 0;
    for (; this.#bytes > this.maxBytes * KEPT && count < this.#entries.length - 1; count += 1) {
      const entry = this.#entries[count];
      if (entry === undefined) break;
      this.#bytes -= entry.memory;
      this.#from = entry.position;
    }
    this.#entries.splice(0, count);
  }
}

function memoryOf(entries: readonly FeedEntry[]): number {
  return entries.reduce((sum, { memory }) => sum + memory, 0);
}

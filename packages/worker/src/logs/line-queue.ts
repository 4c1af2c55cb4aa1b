import type { ShippedLine } from '../service-api/service-api.js';

/** What a line costs besides its text, in bytes: empty lines are not free. */
const LINE_COST = 100;

/** A line with what it holds of memory. */
export interface QueuedLine {
  readonly line: ShippedLine;
  /** Bytes of its text in UTF-8. */
  readonly bytes: number;
}

/** Lines in a row, taken from the front, with what they cost. */
export class LineQueue {
  private items: (QueuedLine | undefined)[] = [];
  private start = 0;
  private cost = 0;

  get length(): number {
    return this.items.length - this.start;
  }

  /** What the lines hold of memory, in bytes. */
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
    // Moving what is left once it is the smaller part costs each line one move.
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

/** What a line holds of memory, in bytes. */
export function costOf({ bytes }: QueuedLine): number {
  return bytes + LINE_COST;
}

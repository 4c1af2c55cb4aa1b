/** Longest part of a line that is kept, in UTF-16 units. */
const MAX_KEPT = 4096;

/** Holds the last lines of a log in a ring: memory does not grow with the log. */
export class LogTail {
  private readonly ring: string[] = [];
  private next = 0;

  constructor(private readonly size = 20) {}

  push(line: string): void {
    // A slice of a large text would keep the whole of it in memory; longer ones are rare enough to copy.
    this.ring[this.next] = line.length > MAX_KEPT ? Buffer.from(line.slice(0, MAX_KEPT)).toString() : line;
    this.next = (this.next + 1) % this.size;
  }

  /** The lines held, oldest first. */
  lines(): string[] {
    return [...this.ring.slice(this.next), ...this.ring.slice(0, this.next)];
  }
}

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

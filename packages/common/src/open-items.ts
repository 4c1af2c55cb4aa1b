interface Entry<T> {
  readonly item: T;
  index: number;
}

/**
 * Items that are open for a short time, such as requests, in no order. Unlike a Set it does not keep them reachable: a
 * Set that changes all the time replaces its table again and again, each table refers to the next one, and V8 moves all
 * that they held to the old generation, until the next major garbage collection.
 */
export class OpenItems<T> {
  readonly #entries: Entry<T>[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** @returns a function that removes the item, and returns whether it was still there */
  add(item: T): () => boolean {
    const entry: Entry<T> = { item, index: this.#entries.length };
    this.#entries.push(entry);
    return () => this.#remove(entry);
  }

  /** The items at this moment; adding and removing does not change the list. */
  list(): T[] {
    return this.#entries.map(({ item }) => item);
  }

  /** Removes all items. @returns them */
  clear(): T[] {
    const removed = this.#entries.splice(0);
    for (const entry of removed) entry.index = -1;
    return removed.map(({ item }) => item);
  }

  /** Moves the last entry to the place of the removed one. */
  #remove(entry: Entry<T>): boolean {
    if (entry.index < 0) return false;
    const last = this.#entries.pop();
    if (last !== undefined && last !== entry) {
      last.index = entry.index;
      this.#entries[entry.index] = last;
    }
    entry.index = -1;
    return true;
  }
}

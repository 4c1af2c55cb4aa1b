import type { FeedSlice } from './feed-slice.js';

/** Slices by key, so that readers at one place share a slice and its JSON. The least recently used ones are forgotten first. */
export class RecentSlices {
  readonly #slices = new Map<string, FeedSlice>();
  #newest = '';
  #bytes = 0;

  /** @param maxBytes of all slices; the latest one is kept whatever its size */
  constructor(private readonly maxBytes: number) {}

  get bytes(): number {
    return this.#bytes;
  }

  /** The slice with this key, which is made if there is none. */
  get(key: string, make: () => FeedSlice): FeedSlice {
    const known = this.#slices.get(key);
    if (known !== undefined && key === this.#newest) return known;
    const slice = known ?? make();
    if (known === undefined) this.#bytes += slice.memory;
    this.#slices.delete(key);
    this.#slices.set(key, slice);
    this.#newest = key;
    for (const [other, { memory }] of this.#slices) {
      if (this.#bytes <= this.maxBytes || other === key) break;
      this.#slices.delete(other);
      this.#bytes -= memory;
    }
    return slice;
  }

  clear(): void {
    this.#slices.clear();
    this.#bytes = 0;
  }
}

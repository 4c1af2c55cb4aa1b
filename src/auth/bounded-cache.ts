/** A map that forgets what was put in first when it would outgrow its bound. */
export class BoundedCache<V> {
  readonly #entries = new Map<string, V>();

  /** @param most entries kept, at least 1 */
  constructor(private readonly most: number) {}

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  /** Puts the entry in as the youngest. */
  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.most) return;
    const oldest = this.#entries.keys().next();
    if (oldest.done !== true) this.#entries.delete(oldest.value);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}

/** One read at a time for each key: calls during a read share the next one, which begins after all of them. */
export class SharedReads<T> {
  readonly #next = new Map<string, Promise<T>>();
  readonly #running = new Map<string, Promise<unknown>>();

  /** @param begin is called for one of the callers that share the read */
  read(key: string, begin: () => Promise<T>): Promise<T> {
    const next = this.#next.get(key);
    if (next !== undefined) return next;
    const running = this.#running.get(key) ?? Promise.resolve();
    const reading = running.then(() => {
      this.#next.delete(key);
      const begun = begin();
      const done = begun.catch(() => undefined).then(() => this.#running.delete(key));
      this.#running.set(key, done);
      return begun;
    });
    this.#next.set(key, reading);
    return reading;
  }
}

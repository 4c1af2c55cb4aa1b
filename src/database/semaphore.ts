/** Has a bounded number of things done at a time, the others in the order in which they came. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  /** @param most that are done at the same time */
  constructor(private readonly most: number) {}

  /** Does it when it is its turn. */
  async take<T>(action: () => Promise<T>): Promise<T> {
    if (this.#busy < this.most) this.#busy += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await action();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#busy -= 1;
      else next();
    }
  }
}

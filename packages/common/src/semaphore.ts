/** Limits how many actions run at the same time; the others wait in order of arrival. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(private readonly limit: number) {}

  async run<T>(action: () => Promise<T>): Promise<T> {
    if (this.#busy < this.limit) this.#busy += 1;
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

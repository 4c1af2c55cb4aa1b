import { Semaphore } from '@longshore/common/semaphore';

interface Turns {
  readonly semaphore: Semaphore;
  /** Actions that run or wait. */
  count: number;
}

/** Runs what API keys ask for, of each key one after the other: what waits holds no connection to the database. */
export class KeyTurns {
  readonly #byKey = new Map<string, Turns>();

  async run<T>(keyId: string, action: () => Promise<T>): Promise<T> {
    const turns = this.#byKey.get(keyId) ?? { semaphore: new Semaphore(1), count: 0 };
    this.#byKey.set(keyId, turns);
    turns.count += 1;
    try {
      return await turns.semaphore.run(action);
    } finally {
      turns.count -= 1;
      if (turns.count === 0) this.#byKey.delete(keyId);
    }
  }
}

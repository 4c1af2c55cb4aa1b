import { Injectable } from '@nestjs/common';

/** Says in one word how a part of the service is: see {@link isWell}. */
export type HealthCheck = () => string | Promise<string>;

/** Words of a part that is well: it works, or it leaves the work to another process for now. */
const WELL: ReadonlySet<string> = new Set(['ok', 'waiting']);

/** Whether a part that says this of itself is well. */
export function isWell(word: string): boolean {
  return WELL.has(word);
}

/** What the parts of the service say of themselves. Each context registers its own checks; health knows no context. */
@Injectable()
export class HealthChecks {
  readonly #checks = new Map<string, HealthCheck>();

  /**
   * Adds a part to what health tells.
   * @param name a key of the answer; not `status`
   * @throws RangeError for a name that is taken
   */
  register(name: string, check: HealthCheck): void {
    if (name === 'status' || this.#checks.has(name))
      throw new RangeError(`the check '${name}' exists already`);
    this.#checks.set(name, check);
  }

  /**
   * Asks every part at the same time.
   * @param limitMs longest wait; a part that has not answered by then is `silent`, one that throws is `failing`
   */
  async ask(limitMs: number): Promise<Record<string, string>> {
    const giveUp = new AbortController();
    const late = new Promise<string>((resolve) => {
      const timer = setTimeout(() => resolve('silent'), limitMs);
      giveUp.signal.addEventListener('abort', () => clearTimeout(timer));
    });
    const answers = [...this.#checks].map(async ([name, check]) => {
      return [name, await Promise.race([wordOf(check), late])] as const;
    });
    try {
      return Object.fromEntries(await Promise.all(answers));
    } finally {
      giveUp.abort();
    }
  }
}

async function wordOf(check: HealthCheck): Promise<string> {
  try {
    return await check();
  } catch {
    return 'failing';
  }
}

import type { Log } from '../common/logging/logger.js';

/** What a start has opened so far, to be closed in the opposite order. */
export class CleanupStack {
  readonly #closers: (() => Promise<void>)[] = [];
  #closed: Promise<void> | undefined;

  /** Remembers how to close something. */
  add(close: () => Promise<void>): void {
    this.#closers.push(close);
  }

  /**
   * Closes what was opened last first, all of it even if one part cannot be closed. A second call changes nothing.
   * @throws the first problem
   */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll();
    return this.#closed;
  }

  /**
   * Does a start that opens things here.
   * @throws whatever the start throws, after everything was closed again
   */
  async orClose<T>(log: Log, start: () => Promise<T>): Promise<T> {
    try {
      return await start();
    } catch (error) {
      await this.close().catch((problem: unknown) => {
        log.error('could not clean up after a failed start', { error: problem });
      });
      throw error;
    }
  }

  async #closeAll(): Promise<void> {
    const problems: unknown[] = [];
    for (const close of this.#closers.splice(0).toReversed()) {
      try {
        await close();
      } catch (error) {
        problems.push(error);
      }
    }
    if (problems.length > 0) throw problems[0];
  }
}

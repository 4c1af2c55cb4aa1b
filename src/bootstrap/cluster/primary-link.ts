import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { isPrimaryMessage, type ChildMessage, type Counts, type PrimaryMessage } from './cluster-messages.js';

/** The primary gives every process a second for its counts; longer than that, in milliseconds. */
const SCRAPE_LIMIT_MS = 4_000;

/** The process that forked this one has ended. */
export class PrimaryLost extends Error {
  constructor() {
    super('the primary process has ended');
    this.name = 'PrimaryLost';
  }
}

/** A server process's connection to the primary that forked it. */
export class PrimaryLink {
  readonly #lost = new AbortController();
  readonly #scrapes = new Map<number, (text: string | undefined) => void>();
  #onSetup: ((databaseUrl: string) => void) | undefined;
  #onPort: ((port: number) => void) | undefined;
  #count: (() => Promise<Counts>) | undefined;
  #serial = 0;

  constructor() {
    process.on('message', (message: unknown) => {
      if (isPrimaryMessage(message)) this.#hear(message);
    });
    cluster.worker?.on('disconnect', () => {
      // node:cluster ends the process on the spot otherwise, and with it the requests under way.
      if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
      this.#lost.abort(new PrimaryLost());
    });
    if (!process.connected) this.#lost.abort(new PrimaryLost());
  }

  /** Aborts when the primary has ended. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Says hello. @returns the URL of the database to use. @throws PrimaryLost */
  setUp(): Promise<string> {
    return this.#ask({ kind: 'loaded' }, (resolve) => {
      this.#onSetup = resolve;
    });
  }

  /** Waits for the port. @returns its number. @throws PrimaryLost */
  awaitPort(): Promise<number> {
    return this.#ask({ kind: 'prepared' }, (resolve) => {
      this.#onPort = resolve;
    });
  }

  /** Says that this process answers at a URL, and how its counts are read from now on. */
  async announce(url: string, count: () => Promise<Counts>): Promise<void> {
    this.#count = count;
    await this.#tell({ kind: 'ready', url });
  }

  /** Says why this process cannot start. */
  fail(problems: readonly string[], exitCode: number): Promise<void> {
    return this.#tell({ kind: 'failed', problems, exitCode });
  }

  /** Leaves the last counts behind, so that they stay in the totals. */
  async leaveCounts(): Promise<void> {
    if (this.#count !== undefined) {
      await this.#tell({ kind: 'counted', id: 0, counts: await this.#count() });
    }
  }

  /** @returns the metrics of all processes as text. @throws Error when they cannot be had in time */
  async scrape(): Promise<string> {
    this.#serial += 1;
    const id = this.#serial;
    const abort = new AbortController();
    try {
      const answered = new Promise<string | undefined>((resolve) => this.#scrapes.set(id, resolve));
      await this.#tell({ kind: 'scrape', id });
      const late = sleep(SCRAPE_LIMIT_MS, undefined, { signal: abort.signal }).catch(() => undefined);
      const text = await Promise.race([answered, late]);
      if (text === undefined) throw new Error('the primary process gave no metrics');
      return text;
    } finally {
      abort.abort();
      this.#scrapes.delete(id);
    }
  }

  #ask<T>(question: ChildMessage, take: (resolve: (answer: T) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const onLost = (): void => reject(new PrimaryLost());
      if (this.lost.aborted) return onLost();
      this.lost.addEventListener('abort', onLost);
      take((answer) => {
        this.lost.removeEventListener('abort', onLost);
        resolve(answer);
      });
      void this.#tell(question);
    });
  }

  #hear(message: PrimaryMessage): void {
    switch (message.kind) {
      case 'setup':
        return this.#onSetup?.(message.databaseUrl);
      case 'listen':
        return this.#onPort?.(message.port);
      case 'scraped':
        return this.#scrapes.get(message.id)?.(message.text);
      case 'count':
        return void this.#tellCounts(message.id);
    }
    message satisfies never;
  }

  async #tellCounts(id: number): Promise<void> {
    const counts = await this.#count?.();
    if (counts !== undefined) await this.#tell({ kind: 'counted', id, counts });
  }

  /** Resolves when it is on its way, or lost with the primary. */
  #tell(message: ChildMessage): Promise<void> {
    return new Promise((resolve) => {
      if (process.send === undefined || !process.connected) return resolve();
      process.send(message, undefined, undefined, () => resolve());
    });
  }
}

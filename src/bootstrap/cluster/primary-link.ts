import cluster from 'node:cluster';
import {
  IpcChannel,
  type Counts,
  type PrimaryApi,
  type ProcessApi,
  type StartFailure,
} from './ipc-channel.js';

/** The primary gives every process a second for its counts; longer than that, in milliseconds. */
const SCRAPE_TIMEOUT_MS = 4_000;

/** The process that forked this one has ended. */
class PrimaryLost extends Error {
  override readonly name = 'PrimaryLost';

  constructor() {
    super('the primary process has ended');
  }
}

/** A server process's connection to the primary. */
export class PrimaryLink {
  readonly #lost = new AbortController();
  readonly #channel: IpcChannel<PrimaryApi, ProcessApi>;
  #count: () => Promise<Counts> = () => Promise.resolve([]);

  constructor() {
    this.#channel = new IpcChannel<PrimaryApi, ProcessApi>(
      (message) => {
        if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
      },
      { count: () => this.#count() },
    );
    process.on('message', (message: unknown) => this.#channel.receive(message));
    cluster.worker?.on('disconnect', () => {
      // Otherwise node:cluster ends the process at once, and with it the requests in progress.
      if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
      this.#lose();
    });
    if (!process.connected) this.#lose();
  }

  /** Aborts when the primary has ended. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** @returns the URL of the database. @throws PrimaryLost */
  setUp(): Promise<string> {
    return this.#channel.call('setUp');
  }

  /** Waits until this process may listen. @returns the port. @throws PrimaryLost */
  awaitPort(): Promise<number> {
    return this.#channel.call('prepared');
  }

  /**
   * Reports that this process listens at a URL.
   * @param count reads its counts from now on
   * @throws PrimaryLost
   */
  async announce(url: string, count: () => Promise<Counts>): Promise<void> {
    this.#count = count;
    await this.#channel.call('ready', url);
  }

  /** Reports why this process cannot start. */
  async fail(failure: StartFailure): Promise<void> {
    await this.#channel.call('failed', failure).catch(() => undefined);
  }

  /** Reports the last counts, so that the totals keep them. */
  async leaveCounts(): Promise<void> {
    await this.#channel.call('leave', await this.#count()).catch(() => undefined);
  }

  /** @returns the metrics of all processes as text. @throws Error after 4 s */
  scrape(): Promise<string> {
    return this.#channel.call('scrape', undefined, SCRAPE_TIMEOUT_MS);
  }

  #lose(): void {
    const reason = new PrimaryLost();
    this.#channel.close(reason);
    this.#lost.abort(reason);
  }
}

import cluster from 'node:cluster';
import { EventEmitter, once } from 'node:events';
import {
  receive,
  type Counts,
  type Message,
  type PrimaryMessages,
  type ProcessMessages,
} from './messages.js';

/** The primary gives every process a second for its counts; longer than that, in milliseconds. */
const SCRAPE_TIMEOUT_MS = 4_000;

/** A server process's connection to the primary. */
export class PrimaryLink {
  readonly #messages = new EventEmitter<PrimaryMessages>();
  readonly #lost = new AbortController();
  #count: (() => Promise<Counts>) | undefined;

  constructor() {
    // One for every scrape under way.
    this.#messages.setMaxListeners(0);
    process.on('message', (message: unknown) => receive(this.#messages, message));
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

  /** Waits until this process may listen. @returns the port. @throws AbortError */
  async awaitPort(): Promise<number> {
    const answer = once(this.#messages, 'port', { signal: this.lost });
    void this.#send('prepared');
    const [port]: unknown[] = await answer;
    return Number(port);
  }

  /**
   * Reports that this process listens at a URL.
   * @param count reads its counts from now on
   */
  announce(url: string, count: () => Promise<Counts>): void {
    this.#count = count;
    // Without an answer, the primary goes on with the last counts that it knows.
    this.#messages.on('count', () => void this.sendCounts().catch(() => undefined));
    void this.#send('ready', url);
  }

  /** Reports why this process cannot start. */
  fail(problems: readonly string[]): Promise<void> {
    return this.#send('failed', problems);
  }

  /** Reports the counts of a process that has listened. */
  async sendCounts(): Promise<void> {
    if (this.#count !== undefined) await this.#send('counts', await this.#count());
  }

  /** @returns the metrics of all processes as text. @throws AbortError after 4 s */
  async scrape(): Promise<string> {
    const answer = once(this.#messages, 'metrics', { signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS) });
    void this.#send('scrape');
    const [text]: unknown[] = await answer;
    return String(text);
  }

  /** Resolves when the message is on its way, or the primary is gone. */
  #send<K extends keyof ProcessMessages>(name: K, ...values: ProcessMessages[K]): Promise<void> {
    const message: Message = { longshore: name, values };
    return new Promise((resolve) => {
      process.send?.(message, undefined, undefined, () => resolve());
    });
  }

  #lose(): void {
    this.#lost.abort(new Error('the primary process has ended'));
  }
}

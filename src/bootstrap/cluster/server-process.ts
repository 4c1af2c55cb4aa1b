import cluster, { type Worker } from 'node:cluster';
import type { Counted } from './cluster-metrics.js';
import { watchHandOver } from './hand-over.js';
import { isChildMessage, type ChildMessage, type Counts, type PrimaryMessage } from './cluster-messages.js';

/** How a server process ended. */
export interface ProcessEnd {
  /** Undefined when the system gave no process. */
  readonly pid: number | undefined;
  readonly code: number | null;
  readonly signal: string | null;
  /** True when it was ready once. */
  readonly hasAnswered: boolean;
  /** What it said about a start that failed. */
  readonly failure: Extract<ChildMessage, { kind: 'failed' }> | undefined;
  /** From the fork to the end. */
  readonly livedMs: number;
}

/** What the primary does when a process says something that is not about the process alone. */
export interface ProcessEvents {
  onLoaded(process: ServerProcess): void;
  onPrepared(process: ServerProcess): void;
  onScrape(process: ServerProcess, id: number): void;
  /** Its counts; asked for or the last ones. */
  onCounts(process: ServerProcess, counts: Counts): void;
}

/** A server process as the primary sees it, from its fork to its end. */
export class ServerProcess implements Counted {
  readonly #worker: Worker;
  readonly #born = performance.now();
  readonly #asked = new Map<number, (counts: Counts) => void>();
  /** Resolves with its URL when it answers; never if it ends before. */
  readonly ready: Promise<string>;
  /** Resolves when it has ended. */
  readonly ended: Promise<ProcessEnd>;
  #tellReady: (url: string) => void = () => undefined;
  #tellEnded: (end: ProcessEnd) => void = () => undefined;
  readonly #breakOffHandOver: () => void;
  #failure: ProcessEnd['failure'];
  #url: string | undefined;
  #hasEnded = false;
  #mayListen = false;
  #serial = 0;

  /**
   * Forks it.
   * @throws the system's error when it gives no process
   */
  constructor(
    env: Readonly<Record<string, string>>,
    private readonly events: ProcessEvents,
  ) {
    this.ready = new Promise((resolve) => {
      this.#tellReady = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.#tellEnded = resolve;
    });
    this.#worker = cluster.fork(env);
    this.#breakOffHandOver = watchHandOver(this.#worker.process);
    this.#worker.on('message', (message: unknown) => {
      if (isChildMessage(message)) this.#hear(message);
    });
    this.#worker.on('error', () => {
      // One that could not be started has neither a pid nor an exit.
      if (this.pid === undefined) this.#end(null, null);
    });
    this.#worker.once('exit', (code, signal) => {
      // The port is free only when the channel is closed as well, which may take a moment longer.
      if (this.#worker.isConnected()) this.#worker.once('disconnect', () => this.#end(code, signal));
      else this.#end(code, signal);
    });
  }

  get pid(): number | undefined {
    return this.#worker.process.pid;
  }

  /** Where it answers; undefined before it does, and once it ended. */
  get url(): string | undefined {
    return this.#hasEnded ? undefined : this.#url;
  }

  /** True from `reservePort` to its end. */
  get holdsPort(): boolean {
    return this.#mayListen && !this.#hasEnded;
  }

  /** The port is its own from now on, beside the others'. */
  reservePort(): void {
    this.#mayListen = true;
  }

  /** Tells it something; lost when it has ended. */
  tell(message: PrimaryMessage): void {
    if (!this.#worker.isConnected()) return;
    // An error here means that it is ending, which its exit tells.
    this.#worker.send(message, () => undefined);
  }

  count(): Promise<Counts> {
    this.#serial += 1;
    const id = this.#serial;
    return new Promise((resolve) => {
      // A process that answers no more is not asked on and on.
      if (this.#asked.size > 100) this.#asked.clear();
      this.#asked.set(id, resolve);
      this.tell({ kind: 'count', id });
    });
  }

  /** Sends it a signal; harmless when it has ended. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#hasEnded) this.#worker.process.kill(signal);
  }

  #hear(message: ChildMessage): void {
    switch (message.kind) {
      case 'loaded':
        return this.events.onLoaded(this);
      case 'prepared':
        return this.events.onPrepared(this);
      case 'ready':
        this.#url = message.url;
        return this.#tellReady(message.url);
      case 'failed':
        this.#failure = message;
        return;
      case 'scrape':
        return this.events.onScrape(this, message.id);
      case 'counted':
        this.events.onCounts(this, message.counts);
        this.#asked.get(message.id)?.(message.counts);
        this.#asked.delete(message.id);
        return;
    }
    message satisfies never;
  }

  #end(code: number | null, signal: string | null): void {
    this.#hasEnded = true;
    this.#breakOffHandOver();
    this.#asked.clear();
    this.#tellEnded({
      pid: this.pid,
      code,
      hasAnswered: this.#url !== undefined,
      signal,
      failure: this.#failure,
      livedMs: performance.now() - this.#born,
    });
  }
}

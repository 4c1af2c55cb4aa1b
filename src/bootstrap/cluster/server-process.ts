import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import type { Counted } from './cluster-metrics.js';
import {
  IpcChannel,
  SERVER_PROCESS,
  type Counts,
  type Handlers,
  type PrimaryApi,
  type ProcessApi,
  type StartFailure,
} from './ipc-channel.js';

const COUNT_TIMEOUT_MS = 10_000;

/** A server process could not start when the service started. */
export class ServerProcessFailed extends Error implements StartFailure {
  constructor(
    readonly problems: readonly string[],
    readonly exitCode: number,
  ) {
    super(problems.join('\n'));
  }
}

/** How a server process ended. */
export interface ProcessEnd {
  /** Undefined when the system could not start it. */
  readonly pid: number | undefined;
  readonly code: number | null;
  readonly signal: string | null;
  /** Whether it has listened. */
  readonly hasListened: boolean;
  /** The failure of its start that it reported. */
  readonly failure: StartFailure | undefined;
  readonly livedMs: number;
}

/** A server process as the primary sees it, from its fork to its end. */
export class ServerProcess implements Counted {
  readonly #worker: Worker;
  readonly #channel: IpcChannel<ProcessApi, PrimaryApi>;
  readonly ended: Promise<ProcessEnd>;
  #failure: StartFailure | undefined;
  #url: string | undefined;
  #hasEnded = false;
  #isPortReserved = false;

  /**
   * Forks the process.
   * @param handlers of its calls
   * @throws the system's error when it cannot be started
   */
  constructor(handlers: Omit<Handlers<PrimaryApi>, 'failed'>) {
    const startedAt = performance.now();
    const worker = cluster.fork({ [SERVER_PROCESS]: '1' });
    this.#worker = worker;
    const closeLastConnection = trackSentConnections(worker.process);
    this.#channel = new IpcChannel<ProcessApi, PrimaryApi>(
      (message) => {
        // An error means that the process is ending, which its exit reports.
        if (worker.isConnected()) worker.send(message, () => undefined);
      },
      {
        ...handlers,
        ready: (url) => {
          this.#url = url;
          return handlers.ready(url);
        },
        failed: (failure) => {
          this.#failure = failure;
        },
      },
    );
    worker.on('message', (message: unknown) => this.#channel.receive(message));
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: string | null): void => {
        this.#hasEnded = true;
        closeLastConnection();
        this.#channel.close(new Error('the process has ended'));
        const livedMs = performance.now() - startedAt;
        const hasListened = this.#url !== undefined;
        resolve({ pid: this.pid, code, signal, hasListened, failure: this.#failure, livedMs });
      };
      worker.on('error', () => {
        // A process that could not be started has neither a pid nor an exit.
        if (this.pid === undefined) end(null, null);
      });
      worker.once('exit', (code, signal) => {
        // The port is free only when the channel is closed as well.
        if (worker.isConnected()) worker.once('disconnect', () => end(code, signal));
        else end(code, signal);
      });
    });
  }

  get pid(): number | undefined {
    return this.#worker.process.pid;
  }

  /** Whether it accepts requests. */
  get isListening(): boolean {
    return this.#url !== undefined && !this.#hasEnded;
  }

  /** True from `reservePort` to its end. */
  get holdsPort(): boolean {
    return this.#isPortReserved && !this.#hasEnded;
  }

  /** Marks the process as one that listens on the shared port. */
  reservePort(): void {
    this.#isPortReserved = true;
  }

  count(): Promise<Counts> {
    return this.#channel.call('count', undefined, COUNT_TIMEOUT_MS);
  }

  /** Sends a signal, unless the process has ended. */
  signal(signal: NodeJS.Signals): void {
    if (!this.#hasEnded) this.#worker.process.kill(signal);
  }
}

/**
 * Remembers the last connection that node:cluster sent to a process. If the process dies before it accepts the connection,
 * nothing else closes it, and its client waits for ever.
 * @returns closes it; harmless for an accepted connection, which is already closed in this process
 */
function trackSentConnections(process: ChildProcess): () => void {
  let last: unknown;
  process.send = new Proxy(process.send.bind(process), {
    apply: (send, _this, args: unknown[]): unknown => {
      last = args[1] ?? last;
      return Reflect.apply(send, undefined, args);
    },
  });
  return () => {
    if (typeof last !== 'object' || last === null || !('close' in last)) return;
    if (typeof last.close === 'function') last.close();
    last = undefined;
  };
}

import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import { EventEmitter, once } from 'node:events';
import type { Counted } from './cluster-metrics.js';
import {
  receive,
  SERVER_PROCESS,
  type Counts,
  type Message,
  type PrimaryMessages,
  type ProcessMessages,
} from './messages.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** How long a scrape waits for the counts of each process, in milliseconds. */
const COUNT_TIMEOUT_MS = 1_000;

/** A server process could not start when the service started. */
export class ServerProcessFailed extends Error {
  constructor(
    /** Lines for standard error. */
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
  /** Why it could not start, when that is known. */
  readonly problems: readonly string[] | undefined;
  readonly livedMs: number;
}

/** A server process as the primary sees it, from its fork to its end. Emits the messages of the process. */
export class ServerProcess extends EventEmitter<ProcessMessages> implements Counted {
  readonly #worker: Worker;
  readonly ended: Promise<ProcessEnd>;
  #counts: Counts = [];
  #holdsPort = false;
  #isListening = false;

  /**
   * Forks the process.
   * @param environment variables that differ from those of this process
   * @throws the system's error when it cannot be started
   */
  constructor(environment: Readonly<Record<string, string>>) {
    super();
    const worker = cluster.fork({ [SERVER_PROCESS]: '1', ...environment });
    this.#worker = worker;
    this.ended = this.#untilEnd(monotonicMs());
    worker.on('message', (message: unknown) => receive(this, message));
    this.on('counts', (counts) => {
      this.#counts = counts;
    });
    this.once('prepared', () => {
      this.#holdsPort = true;
    });
    this.once('ready', () => {
      this.#isListening = true;
    });
  }

  get pid(): number | undefined {
    return this.#worker.process.pid;
  }

  /** Whether it accepts requests. */
  get isListening(): boolean {
    return this.#isListening;
  }

  /** Whether it has asked for the port. */
  get holdsPort(): boolean {
    return this.#holdsPort;
  }

  get counts(): Counts {
    return this.#counts;
  }

  async recount(): Promise<void> {
    if (!this.#isListening) return;
    const answer = once(this, 'counts', { signal: AbortSignal.timeout(COUNT_TIMEOUT_MS) });
    this.send('count');
    await answer.catch(() => undefined);
  }

  /** Sends a message, unless the process is ending. */
  send<K extends keyof PrimaryMessages>(name: K, ...values: PrimaryMessages[K]): void {
    const message: Message = { longshore: name, values };
    // Its exit reports the end; an error would add nothing.
    this.#worker.send(message, () => undefined);
  }

  /** Sends a signal, unless the process has ended. */
  signal(signal: NodeJS.Signals): void {
    this.#worker.process.kill(signal);
  }

  #untilEnd(startedAt: number): Promise<ProcessEnd> {
    const worker = this.#worker;
    // It has no channel either when it could not be started.
    const closeLastConnection =
      this.pid === undefined ? (): void => undefined : trackSentConnections(worker.process);
    let problems: readonly string[] | undefined;
    this.once('failed', (lines) => {
      problems = lines;
    });
    return new Promise((resolve) => {
      const end = (code: number | null, signal: string | null): void => {
        closeLastConnection();
        const { pid, isListening: hasListened } = this;
        resolve({ pid, code, signal, hasListened, problems, livedMs: monotonicMs() - startedAt });
      };
      worker.on('error', (error) => {
        // A process that could not be started has neither a pid nor an exit.
        if (this.pid === undefined) {
          problems = [`no server process can be started: ${error.message}`];
          end(null, null);
        }
      });
      worker.once('exit', (code, signal) => {
        // The port is free, and its last message has come, only when the channel is closed as well.
        if (worker.isConnected()) worker.once('disconnect', () => end(code, signal));
        else end(code, signal);
      });
    });
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

import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseServers } from './database-servers.js';
import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { OpenItems } from '@longshore/common/open-items';
import type { Client } from 'pg';
import { codeOf, DatabaseUnreachable, isDatabaseUnavailable, isRefusal, isTransient } from './unavailable.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** The database did not answer a probe in time. */
class ProbeTimeout extends Error {
  readonly code = 'ETIMEDOUT';

  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`);
  }
}

/**
 * Connects to the database, independently of all pools.
 * @returns undefined on success, otherwise a ProbeTimeout or the driver's error
 */
async function probeDatabase(servers: DatabaseServers, timeoutMs: number): Promise<unknown> {
  const giveUp = new AbortController();
  const timeout = async (): Promise<ProbeTimeout> => {
    await sleep(timeoutMs, undefined, { signal: giveUp.signal });
    // After a stall of this process the timer fires before the answer in the socket is read.
    await nextTurn();
    await nextTurn();
    return new ProbeTimeout(timeoutMs);
  };
  const failure: unknown = await Promise.race([servers.probe(giveUp.signal), timeout()]).catch(
    (error: unknown) => error,
  );
  giveUp.abort();
  return failure;
}

/** In milliseconds. */
const DEFAULT_TIMES = {
  /** A statement or connection attempt that takes longer than this triggers a probe. */
  suspectAfter: 1_000,
  /** Timeout of a probe. */
  probeTimeout: 1_500,
  /** Pause between probes while the database is unreachable. */
  probePause: 200,
};
type CircuitBreakerTimes = Readonly<typeof DEFAULT_TIMES>;

const WATCHDOG_MS = 250;

/** SQLSTATE of a server that has no free connection: the open ones still work. */
const TOO_MANY_CONNECTIONS = '53300';

interface CircuitBreakerEvents {
  /** The database is unreachable. */
  open: [DatabaseUnreachable];
  /** The database is reachable again, after so many milliseconds. */
  close: [number];
  /** The server answers, but refuses all writes or new connections. */
  refused: [unknown];
}

/**
 * Circuit breaker of a data source and those derived from it. A broken, refused or slow connection triggers a probe on a
 * connection of its own. If the probe fails, the breaker opens: it cuts all connections and rejects new ones at once. It
 * closes when a later probe succeeds. Active while at least one pool is open.
 */
export class CircuitBreaker extends EventEmitter<CircuitBreakerEvents> {
  readonly #pools = new Set<object>();
  readonly #clients = new Set<Client>();
  readonly #requests = new OpenItems<{ readonly since: number }>();
  readonly #waiting = new OpenItems<(error: DatabaseUnreachable) => void>();
  // Keeps the trace of the request that triggered the probe out of later log lines.
  readonly #scope = new AsyncResource('CircuitBreaker');
  #error: DatabaseUnreachable | undefined;
  #checking: Promise<boolean> | undefined;
  #checkedAt = 0;
  #answeredAt = 0;
  #watchdog: NodeJS.Timeout | undefined;
  #stop = new AbortController();
  #recovery: Promise<void> | undefined;

  constructor(
    private readonly servers: DatabaseServers,
    private readonly times: CircuitBreakerTimes = DEFAULT_TIMES,
  ) {
    super();
  }

  /** The error of every new connection while the breaker is open; undefined while it is closed. */
  get error(): DatabaseUnreachable | undefined {
    return this.#error;
  }

  /** Activates the breaker with the first connection of a pool. */
  addPool(pool: object): void {
    this.#pools.add(pool);
    if (this.#stop.signal.aborted) this.#stop = new AbortController();
    this.#watchdog ??= setInterval(() => this.#checkSlowRequests(), WATCHDOG_MS).unref();
  }

  /** Removes a pool that is being closed; the last one stops all probes. */
  async removePool(pool: object): Promise<void> {
    this.#pools.delete(pool);
    if (this.#pools.size > 0) return;
    clearInterval(this.#watchdog);
    this.#watchdog = undefined;
    this.#stop.abort();
    await this.#recovery;
    await this.#checking;
  }

  /** Cuts the client when the breaker opens, until the client ends. */
  addClient(client: Client): void {
    this.#clients.add(client);
    client.once('end', () => this.#clients.delete(client));
  }

  /** Registers a request to the server. @returns a function to call when it is over, with its error if it failed */
  begin(): (error?: unknown) => void {
    const end = this.#requests.add({ since: monotonicMs() });
    return (error) => {
      end();
      if (error === undefined) this.#answeredAt = monotonicMs();
      else if (isDatabaseUnavailable(error)) {
        void this.check();
        if (isRefusal(error)) this.emit('refused', error);
      }
    };
  }

  /** Calls the function once when the breaker opens. @returns a function that cancels this */
  rejectWhenOpen(reject: (error: DatabaseUnreachable) => void): () => void {
    return this.#waiting.add(reject);
  }

  /**
   * Probes the database; concurrent callers share one probe. A server without a free connection counts as reachable if
   * this process has an open one.
   * @returns whether it is reachable, after `probeTimeout` at most
   */
  check(): Promise<boolean> {
    if (this.#error || this.#pools.size === 0) return Promise.resolve(false);
    this.#checking ??= this.#check().finally(() => {
      this.#checkedAt = monotonicMs();
      this.#checking = undefined;
    });
    return this.#checking;
  }

  #checkSlowRequests(): void {
    const suspect = monotonicMs() - this.times.suspectAfter;
    if (this.#error || this.#checkedAt > suspect) return;
    for (const { since } of this.#requests.list()) {
      if (since > suspect) continue;
      void this.check();
      return;
    }
  }

  async #check(): Promise<boolean> {
    const started = monotonicMs();
    const failure = await probeDatabase(this.servers, this.times.probeTimeout);
    if (failure === undefined) {
      // The probe found another server; a connection to the one before may be silent.
      for (const client of this.#clients) {
        if (this.servers.isElsewhere(client)) client.connection.stream.destroy();
      }
      return true;
    }
    // Another request was answered during the probe: the server is slow, not unreachable.
    if (failure instanceof ProbeTimeout && this.#answeredAt > started) return true;
    if (codeOf(failure) === TOO_MANY_CONNECTIONS) return this.#clients.size > 0;
    // Connections that are open still work where only new ones are refused.
    if (isTransient(failure) || this.#clients.size === 0) this.#open(failure);
    return false;
  }

  #open(cause: unknown): void {
    if (this.#stop.signal.aborted) return;
    const error = new DatabaseUnreachable(cause);
    this.#error = error;
    this.#recovery = this.#scope.runInAsyncScope(() => this.#recover(error));
    for (const reject of this.#waiting.clear()) reject(error);
    for (const { connection } of this.#clients) connection.stream.destroy();
  }

  async #recover(cause: DatabaseUnreachable): Promise<void> {
    const started = monotonicMs();
    const { signal } = this.#stop;
    this.emit('open', cause);
    while (!signal.aborted) {
      await sleep(this.times.probePause, undefined, { signal }).catch(() => undefined);
      const failure = signal.aborted ? undefined : await probeDatabase(this.servers, this.times.probeTimeout);
      if (failure === undefined || codeOf(failure) === TOO_MANY_CONNECTIONS) break;
    }
    this.#error = undefined;
    if (!signal.aborted) this.emit('close', Math.round(monotonicMs() - started));
  }
}

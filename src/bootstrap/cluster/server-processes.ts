import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../common/logging/logger.js';
import { ClusterMetrics } from './cluster-metrics.js';
import { SERVER_PROCESS, type Counts } from './cluster-messages.js';
import type { PortKeeper } from './port-keeper.js';
import { ReplacementPauses } from './replacement-pauses.js';
import { ServerProcessFailed } from './server-process-failed.js';
import { ServerProcess, type ProcessEnd, type ProcessEvents } from './server-process.js';

/** How long a process may take from its fork to its first answer, in milliseconds. */
const START_LIMIT_MS = 120_000;

/** A process drains for at most 10 s and then closes what it has: longer than both together, in milliseconds. */
const STOP_LIMIT_MS = 20_000;

/** How long a scrape waits for the counts of each process, in milliseconds. */
const COUNT_LIMIT_MS = 1_000;

/** What the processes are run with. */
export interface ProcessesPlan {
  readonly count: number;
  /** Where they listen, all of them. */
  readonly port: number;
  readonly keeper: PortKeeper;
  /** The database that they use, at this moment. */
  readonly databaseUrl: () => string;
  readonly log: Log;
}

/** The server processes of this host: started together, replaced one by one when they end, stopped together. */
export class ServerProcesses implements ProcessEvents {
  readonly #live = new Set<ServerProcess>();
  readonly #metrics = new ClusterMetrics(() => this.#answering(), COUNT_LIMIT_MS);
  readonly #stopping = new AbortController();
  #slots: readonly Promise<void>[] = [];
  #isUp = false;

  constructor(private readonly plan: ProcessesPlan) {}

  /**
   * Starts them all.
   * @returns where they answer, once each of them does
   * @throws ServerProcessFailed when one of them cannot start; the others are left to `stop`
   */
  async start(): Promise<string> {
    const urls = Array.from(
      { length: this.plan.count },
      () =>
        new Promise<string>((resolve, reject) => {
          this.#slots = [...this.#slots, this.#keep(resolve, reject)];
        }),
    );
    const [url = ''] = await Promise.all(urls);
    this.#isUp = true;
    return url;
  }

  /** Lets each of them finish what it does, ends those that take too long, and replaces none. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const process of this.#live) process.signal('SIGTERM');
    const late = setTimeout(() => {
      for (const process of this.#live) process.signal('SIGKILL');
    }, STOP_LIMIT_MS);
    await Promise.all(this.#slots);
    clearTimeout(late);
    await this.plan.keeper.release();
  }

  onLoaded(process: ServerProcess): void {
    process.tell({ kind: 'setup', databaseUrl: this.plan.databaseUrl() });
  }

  onPrepared(process: ServerProcess): void {
    process.reservePort();
    void this.plan.keeper.release().then(() => process.tell({ kind: 'listen', port: this.plan.port }));
  }

  onCounts(process: ServerProcess, counts: Counts): void {
    this.#metrics.remember(process, counts);
  }

  onScrape(process: ServerProcess, id: number): void {
    const answer = (text?: string): void => process.tell({ kind: 'scraped', id, text });
    this.#metrics.text().then(answer, (error: unknown) => {
      this.plan.log.warn('could not add up the metrics of the server processes', { error });
      answer();
    });
  }

  #answering(): readonly ServerProcess[] {
    return [...this.#live].filter(({ url }) => url !== undefined);
  }

  /** Runs one process after the other until the service stops. Never rejects. */
  async #keep(onReady: (url: string) => void, onFailure: (error: Error) => void): Promise<void> {
    const { log } = this.plan;
    const pauses = new ReplacementPauses();
    while (!this.#stopping.signal.aborted) {
      const end = await this.#runOne(onReady);
      if (this.#stopping.signal.aborted) return;
      if (!this.#isUp && !end.hasAnswered && end.code !== 0) return onFailure(failureOf(end));
      const pauseMs = pauses.next(end.livedMs);
      const { pid, code, signal, failure } = end;
      const fields = { serverProcess: pid, code, signal, reason: failure?.problems.join('; '), pauseMs };
      if (code === 0) log.info('a server process was stopped; it is replaced', fields);
      else log.warn('a server process ended; it is replaced', fields);
      this.#metrics.countReplacement();
      if (pauseMs > 0) {
        await sleep(pauseMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      }
    }
  }

  async #runOne(onReady: (url: string) => void): Promise<ProcessEnd> {
    let process: ServerProcess;
    try {
      process = new ServerProcess({ [SERVER_PROCESS]: '1' }, this);
    } catch (error) {
      return unstartable(error);
    }
    this.#live.add(process);
    const late = setTimeout(() => process.signal('SIGKILL'), START_LIMIT_MS);
    void this.#untilReady(process, late, onReady);
    const end = await process.ended;
    clearTimeout(late);
    this.#live.delete(process);
    this.#metrics.end(process);
    await this.#keepPort();
    return end;
  }

  async #untilReady(
    process: ServerProcess,
    late: NodeJS.Timeout,
    onReady: (url: string) => void,
  ): Promise<void> {
    const url = await process.ready;
    clearTimeout(late);
    this.plan.log.info('a server process is ready', { serverProcess: process.pid });
    onReady(url);
  }

  /** Takes the port when the last process that had it is gone. */
  async #keepPort(): Promise<void> {
    if (this.#stopping.signal.aborted || [...this.#live].some(({ holdsPort }) => holdsPort)) return;
    try {
      await this.plan.keeper.hold();
    } catch (error) {
      this.plan.log.warn('could not keep the port while no server process listens', { error });
    }
  }
}

function failureOf({ failure, code, signal, pid }: ProcessEnd): ServerProcessFailed {
  if (failure !== undefined) return new ServerProcessFailed(failure.problems, failure.exitCode);
  const how = signal === null ? `with exit code ${code}` : `on ${signal}`;
  return new ServerProcessFailed([`server process ${pid} ended ${how} before it answered`], 1);
}

function unstartable(error: unknown): ProcessEnd {
  const problem = `no server process can be started: ${error instanceof Error ? error.message : String(error)}`;
  const failure = { kind: 'failed', problems: [problem], exitCode: 1 } as const;
  return { pid: undefined, code: null, signal: null, hasAnswered: false, failure, livedMs: 0 };
}

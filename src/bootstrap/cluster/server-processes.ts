import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '@longshore/common/backoff';
import type { Log } from '../../common/logging/logger.js';
import { ClusterMetrics } from './cluster-metrics.js';
import type { PortReservation } from '../port-reservation.js';
import { ServerProcess, ServerProcessFailed, type ProcessEnd } from './server-process.js';
import { errorText } from '@longshore/common/errors';

/** Timeout from the fork of a process until it listens, in milliseconds. */
const START_TIMEOUT_MS = 120_000;

/** Longer than the drain of a process (10 s) and its close together, in milliseconds. */
const STOP_TIMEOUT_MS = 20_000;

/** A process that lived this long resets the restart back-off. */
const STABLE_MS = 30_000;

const PAUSE = { firstMs: 500, maxMs: 15_000 };

/** What the processes are run with. */
export interface ProcessesOptions {
  readonly count: number;
  /** The port of all of them. */
  readonly port: number;
  readonly reservation: PortReservation;
  /** Variables of a process that differ from those of this one. */
  readonly environment: () => Readonly<Record<string, string>>;
  readonly log: Log;
}

/** The server processes of this host: started together, replaced one by one when they end, stopped together. */
export class ServerProcesses {
  readonly #live = new Set<ServerProcess>();
  readonly #metrics = new ClusterMetrics(this.#live);
  readonly #stopping = new AbortController();
  readonly #slots: Promise<void>[] = [];
  #isUp = false;

  constructor(private readonly options: ProcessesOptions) {}

  /**
   * Starts all processes.
   * @returns their URL, when all of them listen
   * @throws ServerProcessFailed when one cannot start; `stop` ends the others
   */
  async start(): Promise<string> {
    const urls = Array.from(
      { length: this.options.count },
      () =>
        new Promise<string>((resolve, reject) => {
          this.#slots.push(this.#runSlot(resolve, reject));
        }),
    );
    const [url = ''] = await Promise.all(urls);
    this.#isUp = true;
    return url;
  }

  /** Lets the processes drain, kills them after a timeout, and replaces none. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const process of this.#live) process.signal('SIGTERM');
    const timer = setTimeout(() => {
      for (const process of this.#live) process.signal('SIGKILL');
    }, STOP_TIMEOUT_MS);
    await Promise.all(this.#slots);
    clearTimeout(timer);
    await this.options.reservation.release();
  }

  /** Runs one process after the other until the service stops. Never rejects. */
  async #runSlot(onReady: (url: string) => void, onFailure: (error: Error) => void): Promise<void> {
    const { log } = this.options;
    const { signal: stopped } = this.#stopping;
    const backoff = new RestartBackoff();
    while (!stopped.aborted) {
      const end = await this.#runProcess(onReady);
      if (stopped.aborted) return;
      if (!this.#isUp && !end.hasListened && end.code !== 0) return onFailure(failureOf(end));
      const pauseMs = backoff.next(end.livedMs);
      const { pid, code, signal, problems } = end;
      const fields = { serverProcess: pid, code, signal, reason: problems?.join('; '), pauseMs };
      if (code === 0) log.info('a server process was stopped; it is replaced', fields);
      else log.warn('a server process ended; it is replaced', fields);
      this.#metrics.countReplacement();
      await sleep(pauseMs, undefined, { signal: stopped }).catch(() => undefined);
    }
  }

  async #runProcess(onReady: (url: string) => void): Promise<ProcessEnd> {
    let process: ServerProcess;
    try {
      process = new ServerProcess(this.options.environment());
    } catch (error) {
      return unstartable(error);
    }
    this.#live.add(process);
    const timer = setTimeout(() => process.signal('SIGKILL'), START_TIMEOUT_MS);
    process.on('prepared', () => void this.#givePort(process));
    process.on('ready', (url) => {
      clearTimeout(timer);
      this.options.log.info('a server process is ready', { serverProcess: process.pid });
      onReady(url);
    });
    process.on('scrape', () => void this.#scrape(process));
    const end = await process.ended;
    clearTimeout(timer);
    this.#live.delete(process);
    this.#metrics.end(process);
    await this.#reservePort();
    return end;
  }

  async #givePort(process: ServerProcess): Promise<void> {
    await this.options.reservation.release();
    process.send('port', this.options.port);
  }

  async #scrape(process: ServerProcess): Promise<void> {
    try {
      process.send('metrics', await this.#metrics.text());
    } catch (error) {
      this.options.log.warn('could not add up the metrics of the server processes', { error });
    }
  }

  /** Reserves the port when no process listens any more. */
  async #reservePort(): Promise<void> {
    if (this.#stopping.signal.aborted || [...this.#live].some(({ holdsPort }) => holdsPort)) return;
    try {
      await this.options.reservation.hold();
    } catch (error) {
      this.options.log.warn('could not keep the port while no server process listens', { error });
    }
  }
}

/** The pause before a replacement: none after a long life or the first short one, then doubling up to 15 s. */
export class RestartBackoff {
  #pauses: Backoff | undefined;

  /** @param random returns numbers from [0, 1), which spread the restarts of several processes */
  constructor(private readonly random: () => number = Math.random) {}

  /** @returns the pause before the replacement of a process that lived so long; both in milliseconds */
  next(livedMs: number): number {
    if (livedMs >= STABLE_MS) this.#pauses = undefined;
    const pauseMs = Math.round(this.#pauses?.nextMs() ?? 0);
    this.#pauses ??= new Backoff(PAUSE, this.random);
    return pauseMs;
  }
}

function failureOf({ problems, code, signal, pid }: ProcessEnd): ServerProcessFailed {
  if (problems !== undefined) return new ServerProcessFailed(problems, code ?? 1);
  const how = signal === null ? `with exit code ${code}` : `on ${signal}`;
  return new ServerProcessFailed([`server process ${pid} ended ${how} before it answered`], 1);
}

function unstartable(error: unknown): ProcessEnd {
  const problems = [`no server process can be started: ${errorText(error)}`];
  return { pid: undefined, code: null, signal: null, hasListened: false, problems, livedMs: 0 };
}

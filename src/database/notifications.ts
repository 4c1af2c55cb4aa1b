import { AsyncResource } from 'node:async_hooks';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Optional, type OnApplicationShutdown } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Backoff } from '@longshore/common/backoff';
import { Log } from '../common/logging/logger.js';
import { JOIN_DEPLOYMENT } from './advisory-locks.js';
import { OriginGate } from './connections/origin-gate.js';
import { DatabaseServers, endClient, ServiceClient } from './connections/service-client.js';

/**
 * Receives what other sessions send to a channel by NOTIFY.
 * @param payload null when listening starts, the first time or after a lost connection: earlier notifications may be
 * missing, so the listener reads the current state once
 */
export type NotificationListener = (payload: string | null) => void;

/** In milliseconds. */
export interface NotificationTimes {
  /** Pause before the first reconnection; it doubles up to the longest. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** Interval of the check that a silent connection still works. */
  readonly check: number;
  /** Timeout of an answer of the server. */
  readonly answer: number;
}

const DEFAULT_TIMES: NotificationTimes = {
  firstPause: 100,
  longestPause: 5_000,
  check: 60_000,
  answer: 10_000,
};

const CHANNEL = /^[a-z][a-z0-9_]{0,62}$/;

/**
 * One connection per process that listens to channels of the database, opened with the first subscription and replaced
 * when it is lost. While it is open, it holds the deployment lock: the process counts as serving.
 */
@Injectable()
export class Notifications implements OnApplicationShutdown {
  readonly #listeners = new Map<string, Set<NotificationListener>>();
  readonly #stop = new AbortController();
  // Keeps the trace of the first subscriber's request out of later log lines.
  readonly #scope = new AsyncResource('Notifications');
  readonly #opened = new AbortController();
  #running: Promise<void> | undefined;
  #session: Session | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
    @Optional() private readonly times: NotificationTimes = DEFAULT_TIMES,
  ) {}

  /**
   * Calls the listener for every notification on a channel, in the order of the commits that sent them.
   * @param channel a plain lower-case name
   * @returns a function that ends the subscription
   * @throws RangeError for another name
   */
  subscribe(channel: string, listener: NotificationListener): () => void {
    if (!CHANNEL.test(channel)) throw new RangeError(`'${channel}' is no plain channel name`);
    const known = this.#listeners.get(channel);
    const listeners = known ?? new Set();
    // A new function, because a listener may be subscribed more than once.
    const entry: NotificationListener = (payload) => listener(payload);
    listeners.add(entry);
    if (known === undefined) {
      this.#listeners.set(channel, listeners);
      this.#session?.listen(channel);
    } else if (this.isListening(channel)) {
      queueMicrotask(() => {
        if (listeners.has(entry)) entry(null);
      });
    }
    this.#start();
    return () => void listeners.delete(entry);
  }

  /** Whether notifications of the channel arrive at the moment, as far as is known. */
  isListening(channel: string): boolean {
    return this.#session?.isListening(channel) === true;
  }

  /** Opens the connection without a subscription. Resolves when it is open, or at shutdown. */
  async open(): Promise<void> {
    this.#start();
    if (!this.#opened.signal.aborted) await once(this.#opened.signal, 'abort');
  }

  async onApplicationShutdown(): Promise<void> {
    this.#stop.abort();
    this.#opened.abort();
    await this.#session?.close();
    await this.#running;
  }

  #start(): void {
    if (!this.#stop.signal.aborted) this.#running ??= this.#scope.runInAsyncScope(() => this.#run());
  }

  async #run(): Promise<void> {
    const backoff = new Backoff({ firstMs: this.times.firstPause, maxMs: this.times.longestPause });
    const { signal } = this.#stop;
    let lostAt: number | undefined;
    while (!signal.aborted) {
      const session = new Session(this.dataSource, this.times, (channel, payload) =>
        this.#notify(channel, payload),
      );
      this.#session = session;
      try {
        await Promise.race([session.open([...this.#listeners.keys()]), session.loss()]);
        this.#opened.abort();
        if (lostAt !== undefined) {
          this.log.info('listening to the database again', {
            afterMs: Math.round(performance.now() - lostAt),
          });
        }
        lostAt = undefined;
        backoff.reset();
        await session.loss();
      } catch (error) {
        void session.close();
        if (signal.aborted) return;
        if (lostAt === undefined) this.log.warn('cannot listen to the database; trying again', { error });
        lostAt ??= performance.now();
      }
      // Randomised, so that the processes of a deployment do not reconnect at the same time.
      await sleep(backoff.nextMs(), undefined, { signal }).catch(() => undefined);
    }
  }

  #notify(channel: string, payload: string | null): void {
    for (const listener of this.#listeners.get(channel) ?? []) {
      try {
        listener(payload);
      } catch (error) {
        this.log.error('a listener to the database failed', { channel, error });
      }
    }
  }
}

/** One connection, from its opening to its loss. */
class Session {
  readonly #client: ServiceClient;
  readonly #gate: OriginGate;
  readonly #channels = new Set<string>();
  readonly #lost = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isConnected = false;
  #isClosed = false;

  constructor(
    { options }: DataSource,
    private readonly times: NotificationTimes,
    private readonly notify: (channel: string, payload: string | null) => void,
  ) {
    if (options.type !== 'postgres') throw new TypeError('the data source is not PostgreSQL');
    const { extra } = options;
    this.#gate = OriginGate.in(extra);
    this.#client = new ServiceClient({
      servers: DatabaseServers.in(extra),
      session: extra?.session,
      connectionString: options.url,
      application_name: options.applicationName,
      connectionTimeoutMillis: times.answer,
      query_timeout: times.answer,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    this.#client.on('error', (error) => this.#lost.abort(error));
    this.#client.on('end', () => this.#lost.abort(new Error('the connection ended')));
    this.#client.on('notification', ({ channel, payload }) => this.notify(channel, payload ?? ''));
  }

  /** Connects and listens. @throws the connection error */
  async open(channels: readonly string[]): Promise<void> {
    const connecting = this.#client.connect();
    this.#last = connecting.catch(() => undefined);
    await connecting;
    this.#isConnected = true;
    this.#gate.remember(this.#client);
    await this.#query(JOIN_DEPLOYMENT);
    for (const channel of channels) await this.#listen(channel);
    if (!this.#isClosed) {
      this.#timer = setInterval(() => this.#orLose(this.#query('select 1')), this.times.check);
    }
  }

  /** Waits until the connection is lost. @throws the reason, always */
  async loss(): Promise<never> {
    const { signal } = this.#lost;
    if (!signal.aborted) await once(signal, 'abort');
    throw signal.reason;
  }

  isListening(channel: string): boolean {
    return !this.#lost.signal.aborted && this.#channels.has(channel);
  }

  /** Listens to one more channel. */
  listen(channel: string): void {
    this.#orLose(this.#listen(channel));
  }

  /** Closes the connection; no listener is called afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    this.#lost.abort(new Error('closed'));
    this.#client.removeAllListeners('notification');
    // The driver does not end a connection that is being opened.
    if (this.#isConnected) await endClient(this.#client);
    else this.#client.connection.stream.destroy();
  }

  async #listen(channel: string): Promise<void> {
    if (this.#channels.has(channel)) return;
    await this.#query(`listen ${channel}`);
    this.#channels.add(channel);
    if (!this.#isClosed) this.notify(channel, null);
  }

  #orLose(work: Promise<unknown>): void {
    work.catch((error: unknown) => this.#lost.abort(error));
  }

  /** Runs one statement after the other: the driver's own queue is deprecated. */
  #query(sql: string): Promise<unknown> {
    const result = this.#last.then(() => this.#client.query(sql));
    this.#last = result.catch(() => undefined);
    return result;
  }
}

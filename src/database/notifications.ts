import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable, Optional, type OnApplicationShutdown } from '@nestjs/common';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { Log } from '../common/logging/logger.js';
import { JOIN_DEPLOYMENT } from './deployment-lock.js';

/**
 * Told of what other sessions sent to a channel by NOTIFY.
 * @param payload null: listening has just begun, for the first time or again. What was sent before that is not known,
 * so whoever waits for something looks for it once.
 */
export type NotificationListener = (payload: string | null) => void;

/** How the connection is kept, in milliseconds. */
export interface NotificationTimes {
  /** Pause before the first attempt to connect again; it doubles up to the longest. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** How often a silent connection is asked whether it is still alive. */
  readonly check: number;
  /** Longest wait for an answer of the server. */
  readonly answer: number;
}

/** Injection token of other times than the usual. */
export const NOTIFICATION_TIMES = Symbol('NOTIFICATION_TIMES');

const USUAL_TIMES: NotificationTimes = {
  firstPause: 100,
  longestPause: 5_000,
  check: 60_000,
  answer: 10_000,
};

const GOODBYE_MS = 1_000;

const CHANNEL = /^[a-z][a-z0-9_]{0,62}$/;

/**
 * One connection per process that listens to channels of the database, opened with the first subscription. A lost
 * connection is replaced, with growing pauses while that fails; subscribers notice by a call without payload. As long as
 * it stands, the process counts as serving (see deployment-lock.ts).
 */
@Injectable()
export class Notifications implements OnApplicationShutdown {
  readonly #listeners = new Map<string, Set<NotificationListener>>();
  readonly #times: NotificationTimes;
  readonly #stop = new AbortController();
  // The first subscription may come from a request, whose id has no place in the lines that this logs later on.
  readonly #scope = new AsyncResource('Notifications');
  readonly #opened: Promise<void>;
  #sayOpened: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #session: Session | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
    @Optional() @Inject(NOTIFICATION_TIMES) times?: NotificationTimes,
  ) {
    this.#times = times ?? USUAL_TIMES;
    this.#opened = new Promise((resolve) => {
      this.#sayOpened = resolve;
    });
  }

  /**
   * Has the listener told of every notification on a channel, in the order of the commits that sent them.
   * @param channel a plain lower-case name
   * @returns ends the subscription
   * @throws RangeError when the channel has no plain name
   */
  subscribe(channel: string, listener: NotificationListener): () => void {
    if (!CHANNEL.test(channel)) throw new RangeError(`'${channel}' is no plain channel name`);
    const known = this.#listeners.get(channel);
    const listeners = known ?? new Set();
    // A function may be subscribed more than once: each subscription is an entry of its own.
    const entry: NotificationListener = (payload) => listener(payload);
    listeners.add(entry);
    if (known === undefined) {
      this.#listeners.set(channel, listeners);
      this.#session?.listen(channel);
    } else if (this.#session?.hears(channel) === true) {
      queueMicrotask(() => {
        if (listeners.has(entry)) entry(null);
      });
    }
    this.#start();
    return () => void listeners.delete(entry);
  }

  /** Whether what is sent to the channel is heard at the moment, as far as is known. */
  hears(channel: string): boolean {
    return this.#session?.hears(channel) === true;
  }

  /** Opens the connection without a subscription; resolves when it stands, or when it has been given up for good. */
  async open(): Promise<void> {
    this.#start();
    await this.#opened;
  }

  /** Closes the connection. */
  async onApplicationShutdown(): Promise<void> {
    this.#stop.abort();
    this.#sayOpened();
    await this.#session?.close();
    await this.#running;
  }

  #start(): void {
    if (!this.#stop.signal.aborted) this.#running ??= this.#scope.runInAsyncScope(() => this.#run());
  }

  async #run(): Promise<void> {
    let pause = this.#times.firstPause;
    let lostAt: number | undefined;
    while (!this.#stop.signal.aborted) {
      const session = new Session(this.dataSource, this.#times, (channel, payload) =>
        this.#tell(channel, payload),
      );
      this.#session = session;
      try {
        await Promise.race([session.open([...this.#listeners.keys()]), session.loss()]);
        this.#sayOpened();
        if (lostAt !== undefined) {
          this.log.info('listening to the database again', {
            afterMs: Math.round(performance.now() - lostAt),
          });
        }
        lostAt = undefined;
        pause = this.#times.firstPause;
        await session.loss();
      } catch (error) {
        void session.close();
        if (this.#stop.signal.aborted) return;
        if (lostAt === undefined) this.log.warn('cannot listen to the database; trying again', { error });
        lostAt ??= performance.now();
      }
      // Not all processes of a deployment at the same instant.
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal: this.#stop.signal }).catch(
        () => undefined,
      );
      pause = Math.min(pause * 2, this.#times.longestPause);
    }
  }

  #tell(channel: string, payload: string | null): void {
    for (const listener of this.#listeners.get(channel) ?? []) {
      try {
        listener(payload);
      } catch (error) {
        this.log.error('a listener to the database failed', { channel, error });
      }
    }
  }
}

/** One connection from its opening to its loss. */
class Session {
  readonly #client: Client;
  readonly #channels = new Set<string>();
  readonly #lost: Promise<Error>;
  #lose: (reason: Error) => void = () => undefined;
  #last: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #connected = false;
  #closed = false;
  #isLost = false;

  constructor(
    dataSource: DataSource,
    private readonly times: NotificationTimes,
    private readonly tell: (channel: string, payload: string | null) => void,
  ) {
    const { options } = dataSource;
    if (options.type !== 'postgres') throw new TypeError('only PostgreSQL sends notifications');
    this.#client = new Client({
      connectionString: options.url,
      application_name: options.applicationName,
      connectionTimeoutMillis: times.answer,
      query_timeout: times.answer,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    this.#lost = new Promise((resolve) => {
      this.#lose = (reason) => {
        this.#isLost = true;
        resolve(reason);
      };
    });
    this.#client.on('error', (error) => this.#lose(error));
    this.#client.on('end', () => this.#lose(new Error('the connection ended')));
    this.#client.on('notification', ({ channel, payload }) => this.tell(channel, payload ?? ''));
  }

  /** Connects and listens. @throws what stands in the way */
  async open(channels: readonly string[]): Promise<void> {
    const connecting = this.#client.connect();
    this.#last = connecting.catch(() => undefined);
    await connecting;
    this.#connected = true;
    await this.#query(JOIN_DEPLOYMENT);
    for (const channel of channels) await this.#hear(channel);
    if (!this.#closed) this.#timer = setInterval(() => this.#ask('select 1'), this.times.check);
  }

  /** Waits until the connection is gone. @throws the reason, always */
  async loss(): Promise<never> {
    throw await this.#lost;
  }

  /** Whether it listens to the channel already, and has not been lost. */
  hears(channel: string): boolean {
    return !this.#isLost && this.#channels.has(channel);
  }

  /** Listens to one more channel. */
  listen(channel: string): void {
    this.#hear(channel).catch((error: unknown) => this.#fail(error));
  }

  /** Ends the connection; nobody is told of anything any more. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#lose(new Error('closed'));
    this.#client.removeAllListeners('notification');
    const { stream } = this.#client.connection;
    // The driver does not end a connection that is just being made.
    if (!this.#connected) {
      stream.destroy();
      return;
    }
    // The server may be out of reach, and then its goodbye never comes.
    const timer = setTimeout(() => stream.destroy(), GOODBYE_MS);
    await this.#client.end().catch(() => undefined);
    clearTimeout(timer);
  }

  async #hear(channel: string): Promise<void> {
    if (this.#channels.has(channel)) return;
    await this.#query(`listen ${channel}`);
    this.#channels.add(channel);
    if (!this.#closed) this.tell(channel, null);
  }

  #ask(sql: string): void {
    this.#query(sql).catch((error: unknown) => this.#fail(error));
  }

  /** One statement after the other: the driver's own queue is going away. */
  #query(sql: string): Promise<unknown> {
    const answer = this.#last.then(() => this.#client.query(sql));
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  #fail(error: unknown): void {
    this.#lose(error instanceof Error ? error : new Error(String(error)));
  }
}

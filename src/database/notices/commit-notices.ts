import { AsyncResource } from 'node:async_hooks';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Optional, type OnApplicationShutdown, type OnModuleDestroy } from '@nestjs/common';
import type { QueryResult } from 'pg';
import { DataSource } from 'typeorm';
import { Backoff } from '@longshore/common/backoff';
import { isJsonObject } from '@longshore/common/json/json-value';
import { Log } from '../../common/logging/logger.js';
import { COUNT_DEPLOYMENT, JOIN_DEPLOYMENT } from '../advisory-locks.js';
import { readOptions, type OriginGate } from '../failover/connection-options.js';
import { endClient, ServiceClient } from '../failover/service-client.js';
import { CHANNEL, type CommitNotice } from './commit-notice.js';
import { Topics, type NamingPart } from './topics.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/**
 * Receives the notice of every commit, its own process's included, in the order of the commits.
 * @param notice null when listening starts, the first time or after a lost connection: earlier ones may be missing, so the
 * listener reads the current state once
 */
export type NoticeListener = (notice: CommitNotice | null) => void;

/** What those who listen need. */
export type NoticeSource = Pick<CommitNotices, 'subscribe' | 'isListening'> &
  Partial<Pick<CommitNotices, 'isAlone'>>;

/** In milliseconds. */
const DEFAULT_TIMES = {
  /** Pause before the first reconnection; it doubles up to the longest. */
  firstPause: 100,
  longestPause: 5_000,
  /** Interval of the check that a silent connection still works. */
  check: 60_000,
  /** Timeout of an answer of the server. */
  answer: 10_000,
};
export type NotificationTimes = Readonly<typeof DEFAULT_TIMES>;

/**
 * The notices of all commits, by one connection per process that is opened with the first subscription and replaced when
 * it is lost. While it is open, it holds the deployment lock: the process counts as serving.
 */
@Injectable()
export class CommitNotices implements OnModuleDestroy, OnApplicationShutdown {
  readonly #listeners = new Set<NoticeListener>();
  readonly #topics = new Map<NamingPart, Topics>();
  readonly #stop = new AbortController();
  // Keeps the trace of the first subscriber's request out of later log lines.
  readonly #scope = new AsyncResource('CommitNotices');
  readonly #opened = new AbortController();
  #running: Promise<void> | undefined;
  #session: Session | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
    @Optional() private readonly times: NotificationTimes = DEFAULT_TIMES,
  ) {}

  /** Calls the listener for every notice. @returns a function that ends the subscription */
  subscribe(listener: NoticeListener): () => void {
    // A new function, because a listener may be subscribed more than once.
    const entry: NoticeListener = (notice) => listener(notice);
    this.#listeners.add(entry);
    if (this.isListening) {
      queueMicrotask(() => {
        if (this.#listeners.has(entry)) entry(null);
      });
    }
    this.#start();
    return () => void this.#listeners.delete(entry);
  }

  /** Whether notices arrive at the moment, as far as is known. */
  get isListening(): boolean {
    return this.#session?.isListening === true;
  }

  /** Whether no other process of the deployment serves, as far as is known. */
  get isAlone(): boolean {
    return this.#session?.isAlone === true;
  }

  /** Those who wait for what this part of the notices names. */
  topicsOf(part: NamingPart): Topics {
    const topics = this.#topics.get(part) ?? new Topics(this, part);
    this.#topics.set(part, topics);
    return topics;
  }

  /** Opens the connection without a subscription. Resolves when it is open, or at shutdown. */
  async open(): Promise<void> {
    this.#start();
    if (!this.#opened.signal.aborted) await once(this.#opened.signal, 'abort');
  }

  onModuleDestroy(): void {
    for (const topics of this.#topics.values()) topics.close();
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
      const session = new Session(this.dataSource, this.times, (notice) => this.#receive(notice));
      this.#session = session;
      try {
        await Promise.race([session.open(), session.loss()]);
        this.#opened.abort();
        if (lostAt !== undefined) {
          this.log.info('listening to the database again', {
            afterMs: Math.round(monotonicMs() - lostAt),
          });
        }
        lostAt = undefined;
        backoff.reset();
        await session.loss();
      } catch (error) {
        void session.close();
        if (signal.aborted) return;
        if (lostAt === undefined) this.log.warn('cannot listen to the database; trying again', { error });
        lostAt ??= monotonicMs();
      }
      // Randomised, so that the processes of a deployment do not reconnect at the same time.
      await sleep(backoff.nextMs(), undefined, { signal }).catch(() => undefined);
    }
  }

  #receive(notice: CommitNotice | null): void {
    for (const listener of this.#listeners) {
      try {
        listener(notice);
      } catch (error) {
        this.log.error('a listener to the database failed', { error });
      }
    }
  }
}

/** What a process that begins to serve tells the others. */
const PROCESS_JOINS = '{"joins":true}';

/** One connection, from its opening to its loss. */
class Session {
  readonly #client: ServiceClient;
  readonly #gate: OriginGate;
  readonly #lost = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isConnected = false;
  #isListening = false;
  #isAlone = false;
  /** Processes that have announced themselves. */
  #joins = 0;
  #isClosed = false;

  constructor(
    dataSource: DataSource,
    private readonly times: NotificationTimes,
    private readonly receive: NoticeListener,
  ) {
    const { extra } = readOptions(dataSource);
    this.#gate = extra.originGate;
    this.#client = new ServiceClient({
      ...extra,
      connectionTimeoutMillis: times.answer,
      query_timeout: times.answer,
    });
    this.#client.on('error', (error) => this.#lost.abort(error));
    this.#client.on('end', () => this.#lost.abort(new Error('the connection ended')));
    this.#client.on('notification', ({ payload }) => {
      if (payload === PROCESS_JOINS) {
        this.#joins += 1;
        this.#isAlone = false;
      } else if (this.#isListening) this.receive(noticeOf(payload ?? ''));
    });
  }

  /** Connects and listens. @throws the connection error */
  async open(): Promise<void> {
    const connecting = this.#client.connect();
    this.#last = connecting.catch(() => undefined);
    await connecting;
    this.#isConnected = true;
    this.#gate.remember(this.#client);
    await this.#query(JOIN_DEPLOYMENT);
    await this.#query(`listen ${CHANNEL}`);
    // Of two that join at once, each announces itself before it counts, so that at least one learns of the other.
    await this.#query(`notify ${CHANNEL}, '${PROCESS_JOINS}'`);
    await this.#count();
    if (this.#isClosed) return;
    this.#isListening = true;
    this.receive(null);
    this.#timer = setInterval(() => this.#orLose(this.#count()), this.times.check);
  }

  /** Counts the processes, which also shows that the connection works. */
  async #count(): Promise<void> {
    const joins = this.#joins;
    const { rows } = await this.#query(COUNT_DEPLOYMENT);
    this.#isAlone = rows[0]?.processes === 1 && joins === this.#joins;
  }

  /** Waits until the connection is lost. @throws the reason, always */
  async loss(): Promise<never> {
    const { signal } = this.#lost;
    if (!signal.aborted) await once(signal, 'abort');
    throw signal.reason;
  }

  get isListening(): boolean {
    return this.#isListening && !this.#lost.signal.aborted;
  }

  get isAlone(): boolean {
    return this.isListening && this.#isAlone;
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

  #orLose(work: Promise<unknown>): void {
    work.catch((error: unknown) => this.#lost.abort(error));
  }

  /** Runs one statement after the other: the driver's own queue is deprecated. */
  #query(sql: string): Promise<QueryResult> {
    const result = this.#last.then(() => this.#client.query(sql));
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** @returns null for one that cannot be read, as if it had been lost */
function noticeOf(text: string): CommitNotice | null {
  try {
    const notice: unknown = JSON.parse(text);
    return isJsonObject(notice) ? notice : null;
  } catch {
    return null;
  }
}

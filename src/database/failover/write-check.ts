import { AsyncResource } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { errorText } from '@longshore/common/errors';
import { Log } from '../../common/logging/logger.js';
import { rows } from '../sql/sql.js';
import { CircuitBreaker } from './circuit-breaker.js';
import { isDatabaseUnavailable, isNotificationQueueFull } from './unavailable.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** Pause between two attempts to write while the server refuses, in milliseconds. */
const PAUSE_MS = 2_000;

/** Sessions that are known to have been in a transaction for the longest time. */
const OLDEST_SESSION = `
  select pid, datname as database, usename as role, application_name as application, state,
         extract(epoch from clock_timestamp() - xact_start)::integer as seconds
    from pg_stat_activity
   where xact_start is not null and pid <> pg_backend_pid()
   order by xact_start
   limit 1`;

/**
 * Whether the server takes writes. When it has refused one although it answers, or refused a new connection, this process is
 * not healthy until a write succeeds: it tries one itself from time to time, since a balancer may send it no more requests.
 */
@Injectable()
export class WriteCheck implements OnApplicationShutdown {
  readonly #stop = new AbortController();
  // Keeps the trace of the request that was refused out of later log lines.
  readonly #scope = new AsyncResource('WriteCheck');
  /** A name of this process's own. */
  readonly #table = `longshore_write_check_${randomBytes(6).toString('hex')}`;
  #trying: Promise<void> | undefined;

  constructor(
    private readonly dataSource: DataSource,
    breaker: CircuitBreaker,
    private readonly log: Log,
  ) {
    breaker.on('refused', (cause) => this.#begin(cause));
  }

  /** Whether the server has refused a write or a connection, and taken no write since. */
  get isRefused(): boolean {
    return this.#trying !== undefined;
  }

  async onApplicationShutdown(): Promise<void> {
    this.#stop.abort();
    await this.#trying;
  }

  #begin(cause: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#trying ??= this.#scope
      .runInAsyncScope(() => this.#untilTaken(cause))
      .finally(() => (this.#trying = undefined));
  }

  async #untilTaken(cause: unknown): Promise<void> {
    const { signal } = this.#stop;
    const begun = monotonicMs();
    const oldest = isNotificationQueueFull(cause) ? await this.#oldestSession() : undefined;
    this.log.warn('the database refuses writes or connections', {
      reason: errorText(cause),
      ...(oldest && { oldestTransaction: oldest }),
    });
    while (!signal.aborted) {
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted || !(await this.#isWriteRefused())) break;
    }
    if (signal.aborted) return;
    this.log.info('the database takes writes again', { afterMs: Math.round(monotonicMs() - begun) });
  }

  /** A write that needs a new page on the disk, the log and the queue of notifications. Nothing of it stays. */
  async #isWriteRefused(): Promise<boolean> {
    try {
      await rows(
        this.dataSource,
        // The first moves the end of the queue on, which else only a notification does that finds place in it.
        `select pg_notification_queue_usage(); create table ${this.#table} as select 1 as n; drop table ${this.#table}; select pg_notify('${this.#table}', '')`,
      );
      return false;
    } catch (error) {
      // A role that may create nothing gets another error: its next request tells.
      return isDatabaseUnavailable(error);
    }
  }

  async #oldestSession(): Promise<object | undefined> {
    const [oldest] = await rows<object>(this.dataSource, OLDEST_SESSION).catch(() => []);
    return oldest;
  }
}

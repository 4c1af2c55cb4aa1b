import type { DataSourceOptions, Logger, MigrationInterface } from 'typeorm';
import { CircuitBreaker } from './circuit-breaker.js';
import { GuardedClient, GuardedPool } from './guarded-connections.js';

/** Longest run of one statement on the server, in milliseconds. */
const STATEMENT_TIMEOUT_MS = 15_000;

/** Longest wait for a lock, in milliseconds: whoever holds one for longer is stuck, and must not stop everybody else. */
const LOCK_TIMEOUT_MS = 3_000;

/**
 * Longest wait for the answer to one statement, in milliseconds. It is longer than the server's own limit, so it
 * strikes only when the server cannot be heard any more: the driver would wait for ever on a silent network.
 */
const ANSWER_TIMEOUT_MS = 20_000;

/** An open transaction whose process stopped talking gives its locks back after this, in milliseconds. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000;

/**
 * Longest wait for a connection, new or out of the pool, in milliseconds: a request behind an exhausted pool is
 * refused rather than kept waiting.
 */
const CONNECT_TIMEOUT_MS = 3_000;

export type EntityClass = new () => object;
export type MigrationClass = new () => MigrationInterface;

/** The classes that make up a schema. */
export interface SchemaClasses {
  readonly entities: readonly EntityClass[];
  readonly migrations: readonly MigrationClass[];
}

export interface DatabaseSettings extends SchemaClasses {
  /** `postgres://user:password@host:port/database`; `?host=` may name the directory of a Unix socket. */
  readonly url: string;
  /** Most connections that this process opens. */
  readonly poolSize: number;
  /** Name that the server shows for these connections. */
  readonly applicationName: string;
  /** Told of connections that broke while nobody was using them; the pool replaces them by itself. */
  readonly onConnectionLost?: (error: Error) => void;
}

/**
 * Options of the one kind of TypeORM data source that the service uses: no synchronisation, no extensions, no
 * migrations by itself, every wait bounded, an outage gate in front of its connections. Rows read by plain SQL carry timestamptz as Date, bigint, numeric and
 * count as string, json as value.
 */
export function dataSourceOptions(settings: DatabaseSettings): DataSourceOptions {
  return {
    type: 'postgres',
    url: settings.url,
    applicationName: settings.applicationName,
    poolSize: settings.poolSize,
    entities: [...settings.entities],
    migrations: [...settings.migrations],
    migrationsRun: false,
    migrationsTransactionMode: 'each',
    synchronize: false,
    installExtensions: false,
    logger: new SilentLogger(),
    poolErrorHandler: (error: Error) => settings.onConnectionLost?.(error),
    driver: { Pool: GuardedPool },
    extra: {
      circuitBreaker: new CircuitBreaker(settings.url, settings.applicationName),
      Client: GuardedClient,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      idleTimeoutMillis: 30_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      lock_timeout: LOCK_TIMEOUT_MS,
      query_timeout: ANSWER_TIMEOUT_MS,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    },
  };
}

/** TypeORM writes some lines to the console whatever its options say; whatever matters is thrown as well. */
class SilentLogger implements Logger {
  logQuery(): void {}
  logQueryError(): void {}
  logQuerySlow(): void {}
  logSchemaBuild(): void {}
  logMigration(): void {}
  log(): void {}
}

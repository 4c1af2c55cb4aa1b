import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import type { DataSourceOptions, Logger, MigrationInterface } from 'typeorm';

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

/** Longest wait for a connection, new or out of the pool, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000;

type EntityClass = new () => object;
type MigrationClass = new () => MigrationInterface;

export interface DatabaseSettings {
  /** `postgres://user:password@host:port/database`; `?host=` may name the directory of a Unix socket. */
  readonly url: string;
  /** Most connections that this process opens. */
  readonly poolSize: number;
  /** Name that the server shows for these connections. */
  readonly applicationName: string;
  readonly entities: readonly EntityClass[];
  readonly migrations: readonly MigrationClass[];
  /** Told of connections that broke while nobody was using them; the pool replaces them by itself. */
  readonly onConnectionLost?: (error: Error) => void;
}

/**
 * Options of the one kind of TypeORM data source that the service uses: no synchronisation, no extensions, no
 * migrations by itself, every wait bounded. Rows read by plain SQL carry timestamptz as Date, bigint, numeric and
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
    extra: {
      Client: AnswerBoundClient,
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

/**
 * A connection that ends when an answer did not come in time. The driver alone gives the statement up but goes on
 * using the connection, on which the statement may still run and a transaction may be open that nobody ends: the
 * next user of that connection would write into it.
 * Its loss never ends the process: between the pool and its user nobody listens for a moment, and whoever has it then
 * learns of the loss from its next statement.
 */
class AnswerBoundClient extends Client {
  constructor(config?: ClientConfig) {
    super(config);
    this.on('error', () => undefined);
    this.query = new Proxy(this.query.bind(this), {
      apply: (query, _this, args): unknown => {
        const answer: unknown = Reflect.apply(query, undefined, args);
        if (answer instanceof Promise) {
          answer.catch((error: unknown) => {
            if (error instanceof Error && error.message === 'Query read timeout')
              this.connection.stream.destroy();
          });
        }
        return answer;
      },
    });
  }
}

import type { Logger, MigrationInterface } from 'typeorm';
import { CircuitBreaker } from './failover/circuit-breaker.js';
import { type ConnectionOptions, type PostgresOptions, OriginGate } from './failover/connection-options.js';
import { DatabaseServers, type DatabaseUrlSource } from './failover/database-servers.js';
import { GuardedClient, GuardedPool } from './failover/guarded-connections.js';
import { SESSION } from './failover/session-settings.js';

/** Client-side timeout of a statement, for a silent network, in milliseconds. Longer than the server's own timeout. */
const QUERY_TIMEOUT_MS = 20_000;

/** Timeout of a connection, new or from the pool: requests behind an exhausted pool are rejected. In milliseconds. */
const CONNECT_TIMEOUT_MS = 3_000;

/** Where TypeORM notes the migrations that were run. Other programs use its default, `migrations`. */
export const MIGRATIONS_TABLE = 'longshore_migrations';

export type EntityClass = new () => object;
export type MigrationClass = new () => MigrationInterface;

export interface SchemaClasses {
  readonly entities: readonly EntityClass[];
  readonly migrations: readonly MigrationClass[];
}

export interface DatabaseSettings extends SchemaClasses {
  /** As {@link parseDatabaseUrl} reads it. What reads it is asked before each connection. */
  readonly url: DatabaseUrlSource;
  /** Maximum number of connections. */
  readonly poolSize: number;
  readonly applicationName: string;
  /** Called for idle connections that break; the pool replaces them. */
  readonly onConnectionLost?: (error: Error) => void;
}

/**
 * Options of the service's TypeORM data sources: no synchronisation, no automatic migrations, a timeout for every wait, a
 * circuit breaker. In rows of plain SQL, timestamptz is a Date, bigint, numeric and count are strings, json is a value that keeps its text.
 * @throws TypeError for a malformed URL
 */
export function dataSourceOptions(settings: DatabaseSettings): PostgresOptions {
  const servers = new DatabaseServers(settings.url, settings.applicationName);
  const shared: ConnectionOptions = {
    servers,
    circuitBreaker: new CircuitBreaker(servers),
    originGate: new OriginGate(),
    session: SESSION,
  };
  return {
    type: 'postgres',
    applicationName: settings.applicationName,
    poolSize: settings.poolSize,
    entities: [...settings.entities],
    migrations: [...settings.migrations],
    migrationsTableName: MIGRATIONS_TABLE,
    migrationsRun: false,
    migrationsTransactionMode: 'each',
    synchronize: false,
    installExtensions: false,
    logger: new SilentLogger(),
    poolErrorHandler: (error: Error) => settings.onConnectionLost?.(error),
    driver: { Pool: GuardedPool },
    extra: {
      ...shared,
      Client: GuardedClient,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      // Longer than the interval of the scheduled jobs, so that each does not open a connection of its own.
      idleTimeoutMillis: 90_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      query_timeout: QUERY_TIMEOUT_MS,
    },
  };
}

/** TypeORM prints some lines to the console regardless of its options; errors are thrown as well. */
class SilentLogger implements Logger {
  logQuery(): void {}
  logQueryError(): void {}
  logQuerySlow(): void {}
  logSchemaBuild(): void {}
  logMigration(): void {}
  log(): void {}
}

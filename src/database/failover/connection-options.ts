import type { DataSource, DataSourceOptions } from 'typeorm';
import type { CircuitBreaker } from './circuit-breaker.js';
import type { OriginGate } from './origin-gate.js';
import type { DatabaseServers, SessionSettings } from './service-client.js';

/** What a data source and those derived from it share. The driver passes it to each pool and connection. */
export interface ConnectionOptions {
  readonly servers: DatabaseServers;
  readonly circuitBreaker: CircuitBreaker;
  readonly originGate: OriginGate;
  readonly session: SessionSettings;
}

/** Options of a data source on PostgreSQL. */
export type PostgresOptions = Extract<DataSourceOptions, { type: 'postgres' }>;

/** The options of a data source of the service. @throws TypeError for another database than PostgreSQL */
export function readOptions({
  options,
}: DataSource): Omit<PostgresOptions, 'extra'> & { readonly extra: ConnectionOptions } {
  if (options.type !== 'postgres') throw new TypeError('the data source is not PostgreSQL');
  return { ...options, extra: options.extra };
}

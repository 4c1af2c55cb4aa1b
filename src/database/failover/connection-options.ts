import type { DataSource, DataSourceOptions } from 'typeorm';
import type { CircuitBreaker } from './circuit-breaker.js';
import type { DatabaseServers } from './database-servers.js';
import type { ServiceClient } from './service-client.js';
import type { SessionSettings } from './session-settings.js';

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

/**
 * Checks each new connection before its first use: it may lead to another database than the earlier ones, after a standby
 * was promoted. Shared by the pools of a data source.
 */
export class OriginGate {
  readonly #admitted = new Set<ServiceClient>();
  #check: ((client: ServiceClient) => Promise<void>) | undefined;

  /** Runs `check` on every connection that is opened from now on; an error closes the connection. */
  use(check: (client: ServiceClient) => Promise<void>): void {
    this.#check = check;
  }

  /** Checks a new connection and remembers it until it ends. @throws what the check throws */
  async admit(client: ServiceClient): Promise<void> {
    await this.#check?.(client);
    this.remember(client);
  }

  /** Remembers a connection without a check. */
  remember(client: ServiceClient): void {
    this.#admitted.add(client);
    client.once('end', () => this.#admitted.delete(client));
  }

  /** Cuts all connections that were opened so far: they may lead to the previous database. */
  cutAdmitted(): void {
    for (const client of this.#admitted) client.connection.stream.destroy();
    this.#admitted.clear();
  }
}

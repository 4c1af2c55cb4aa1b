import { callbackify } from 'node:util';
import { Client, type ClientConfig } from 'pg';
import type { DatabaseServers, Route } from './database-servers.js';
import { readTimestampsOf } from '../sql/timestamps.js';
import type { SessionSettings } from './session-settings.js';
import { markConnecting } from './unavailable.js';

/** The server is a standby, or accepts no writes. Its code counts as an unavailable database. */
class ServerReadOnly extends Error {
  readonly code = '25006';
}

export interface ServiceClientConfig extends ClientConfig {
  readonly servers: DatabaseServers;
  /** Instead of the one that `servers` finds. */
  readonly route?: Route | undefined;
  readonly session?: SessionSettings;
}

/**
 * A connection to the server that accepts writes. Settings of the session are set by a statement: connection poolers refuse or
 * drop them as startup parameters.
 */
export class ServiceClient extends Client {
  readonly #servers: DatabaseServers;
  readonly #fixed: Route | undefined;
  readonly #session: SessionSettings;
  #route: Route | undefined;

  constructor(config: ServiceClientConfig) {
    const { user, password, database, options, applicationName } = config.servers.target;
    super({
      ...config,
      user,
      password,
      database,
      options,
      application_name: applicationName ?? config.servers.applicationName,
      // Set when the connection is opened.
      ssl: false,
      sslnegotiation: 'postgres',
    });
    this.#servers = config.servers;
    this.#fixed = config.route;
    this.#session = config.session ?? {};
    readTimestampsOf(this);
  }

  override connect(): Promise<this>;
  override connect(callback: (error: Error | null, client?: this) => void): void;
  override connect(callback?: (error: Error | null, client?: this) => void): Promise<this> | void {
    if (!callback) return this.#open();
    callbackify(() => this.#open())((error) => callback(error, this));
  }

  /** Makes the next connection search for the server that accepts writes, and closes this one. */
  leaveServer(): void {
    this.#servers.forget(this.#route);
    this.connection.stream.destroy();
  }

  async #open(): Promise<this> {
    try {
      this.#route = this.#fixed ?? (await this.#servers.locate());
      if (this.connection.stream.destroyed) throw new Error('timeout expired');
    } catch (error) {
      // The driver emits it for connections that it has begun to open.
      this.emit('end');
      throw markConnecting(error);
    }
    const { host, port, tls, isDirect } = this.#route;
    const encryption = { ssl: tls, sslNegotiation: isDirect ? 'direct' : 'postgres' };
    Object.assign(this, { host, port, ...encryption });
    Object.assign(this.connection, encryption);
    try {
      await super.connect();
      await this.#setUp();
      await this.onReady();
    } catch (error) {
      this.leaveServer();
      throw markConnecting(error);
    }
    return this;
  }

  /** Called before the first use of the connection. @throws to close it */
  protected onReady(): Promise<void> {
    return Promise.resolve();
  }

  /** @throws ServerReadOnly */
  async #setUp(): Promise<void> {
    const { rows } = await super.query<{ is_standby: boolean; is_read_only: boolean }>(
      `select pg_is_in_recovery() as is_standby, current_setting('transaction_read_only')::boolean as is_read_only,
              (select count(set_config(key, value, false))
                 from json_each_text(${this.escapeLiteral(JSON.stringify(this.#session))})
                where current_setting(key, true) is not null)`,
    );
    const [{ is_standby: isStandby, is_read_only: isReadOnly } = { is_standby: true, is_read_only: true }] =
      rows;
    if (isStandby) throw new ServerReadOnly('the server is a standby, which accepts no writes');
    if (isReadOnly) throw new ServerReadOnly('it is read-only: default_transaction_read_only is on');
  }
}

/** Ends a connection; destroys its socket when the server does not close it in time. */
export async function endClient(client: Client, timeoutMs = 1_000): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), timeoutMs);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}

import { callbackify } from 'node:util';
import { Client, type ClientConfig } from 'pg';
import { parseDatabaseUrl, type DatabaseUrl, type ServerAddress } from './database-url.js';
import { readTimestampsOf } from '../sql/timestamps.js';
import type { SessionSettings } from './session-settings.js';
import { isDatabaseUnavailable } from './unavailable.js';

/** Timeout of each server during a search, for the connection and for the answer, in milliseconds. */
const SERVER_TIMEOUT_MS = 1_000;

/** The server is a standby, or accepts no writes. Its code counts as an unavailable database. */
class ServerReadOnly extends Error {
  readonly code = '25006';
}

/**
 * The servers of a DATABASE_URL. With several, remembers the one that accepts writes; a new search asks all of them at once
 * and takes the first, in the order of the URL, that does.
 */
export class DatabaseServers {
  readonly #parsed: DatabaseUrl;
  #current: ServerAddress | undefined;
  #searching: Promise<ServerAddress> | undefined;

  /** @throws TypeError for a malformed URL */
  constructor(
    url: string,
    readonly applicationName: string,
  ) {
    this.#parsed = parseDatabaseUrl(url);
  }

  /** URL for the driver; names the first server only. */
  get url(): string {
    return this.#parsed.url;
  }

  /** Whether a connection leads to a server that is no longer the one in use. */
  isElsewhere({ host, port }: ServerAddress): boolean {
    return this.#current !== undefined && (host !== this.#current.host || port !== this.#current.port);
  }

  /** Where to connect; undefined for a URL with one server. @throws when no server accepts writes */
  async locate(): Promise<ServerAddress | undefined> {
    if (this.#parsed.servers.length === 0) return undefined;
    return this.#current ?? this.#search();
  }

  /** Makes the next connection search again. */
  forget(address: ServerAddress | undefined): void {
    if (address === this.#current) this.#current = undefined;
  }

  /**
   * Connects to the server, of several to all of them, apart from any pool.
   * @param stop gives up
   * @throws the connection error when none accepts writes
   */
  async probe(stop: AbortSignal): Promise<void> {
    if (this.#parsed.servers.length > 0) await this.#search();
    else await this.#try(undefined, { stop });
  }

  /** Concurrent callers share one search. */
  #search(): Promise<ServerAddress> {
    this.#searching ??= this.#searchAll().finally(() => (this.#searching = undefined));
    return this.#searching;
  }

  async #searchAll(): Promise<ServerAddress> {
    const failures: unknown[] = [];
    const attempts = this.#parsed.servers.map((address) => ({
      address,
      failure: this.#try(address, { timeoutMs: SERVER_TIMEOUT_MS }).catch((error: unknown) => error),
    }));
    for (const { address, failure } of attempts) {
      const error = await failure;
      if (error === undefined) {
        if (this.#current === undefined || this.isElsewhere(address)) this.#current = address;
        return this.#current;
      }
      failures.push(error);
    }
    this.#current = undefined;
    // A wrong password is not to be retried.
    const lasting = failures.find((error) => !isDatabaseUnavailable(error));
    if (lasting !== undefined) throw lasting;
    throw new AggregateError(failures, 'no server of the list accepts writes');
  }

  async #try(
    address: ServerAddress | undefined,
    { timeoutMs = 0, stop }: { readonly timeoutMs?: number; readonly stop?: AbortSignal },
  ): Promise<void> {
    const client = new ServiceClient({
      servers: this,
      address,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
    });
    client.on('error', () => undefined);
    const cut = (): void => void client.connection.stream.destroy();
    stop?.addEventListener('abort', cut);
    await client.connect();
    stop?.removeEventListener('abort', cut);
    void endClient(client);
  }
}

export interface ServiceClientConfig extends ClientConfig {
  readonly servers: DatabaseServers;
  /** Instead of the server that `servers` finds. */
  readonly address?: ServerAddress | undefined;
  readonly session?: SessionSettings;
}

/**
 * A connection to the server that accepts writes. Settings of the session are set by a statement: connection poolers refuse or
 * drop them as startup parameters.
 */
export class ServiceClient extends Client {
  readonly #servers: DatabaseServers;
  readonly #fixed: ServerAddress | undefined;
  readonly #session: SessionSettings;
  #address: ServerAddress | undefined;

  constructor(config: ServiceClientConfig) {
    const { url: connectionString, applicationName: application_name } = config.servers;
    super({ connectionString, application_name, ...config });
    this.#servers = config.servers;
    this.#fixed = config.address;
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
    this.#servers.forget(this.#address);
    this.connection.stream.destroy();
  }

  async #open(): Promise<this> {
    try {
      this.#address = this.#fixed ?? (await this.#servers.locate());
      if (this.connection.stream.destroyed) throw new Error('timeout expired');
    } catch (error) {
      // The driver emits it for connections that it has begun to open.
      this.emit('end');
      throw error;
    }
    if (this.#address) Object.assign(this, this.#address);
    try {
      await super.connect();
      await this.#setUp();
      await this.onReady();
    } catch (error) {
      this.leaveServer();
      throw error;
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

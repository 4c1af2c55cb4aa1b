import { parseDatabaseUrl, type DatabaseUrl, type ServerAddress } from './database-url.js';
import { endClient, ServiceClient } from './service-client.js';
import type { TlsAttempt } from './tls-options.js';
import { codeOf, isTransient } from './unavailable.js';

/** Timeout of each server of several during a search, for the connection and for the answer, in milliseconds. */
const SERVER_TIMEOUT_MS = 1_000;

/** The same for the only one, which nobody replaces. */
const ONLY_SERVER_TIMEOUT_MS = 3_000;

/** How to connect. */
export interface Route extends ServerAddress {
  readonly tls: TlsAttempt;
  /** Whether TLS begins without asking the server. */
  readonly isDirect: boolean;
}

/** A DATABASE_URL, or what reads the current one: it may change while the service runs. */
export type DatabaseUrlSource = string | (() => string);

/**
 * The servers of a DATABASE_URL. With several, or ways to connect, remembers what leads to the one that accepts writes; a new search
 * asks all of them at once and takes the first, in the order of the URL, that does.
 */
export class DatabaseServers {
  #url: string;
  #target: DatabaseUrl;
  #current: Route | undefined;
  #searching: Promise<Route> | undefined;

  /** @throws TypeError for a malformed URL */
  constructor(
    private readonly source: DatabaseUrlSource,
    readonly applicationName: string,
  ) {
    this.#url = currentUrl(source);
    this.#target = parseDatabaseUrl(this.#url);
  }

  /** What the URL says now; as before while a new one cannot be read. */
  get target(): DatabaseUrl {
    try {
      const url = currentUrl(this.source);
      if (url !== this.#url) {
        this.#target = parseDatabaseUrl(url);
        this.#url = url;
        this.#current = undefined;
      }
    } catch {
      // A file that is being replaced.
    }
    return this.#target;
  }

  /** Whether a connection leads to a server that is no longer the one in use. */
  isElsewhere({ host, port }: ServerAddress): boolean {
    return this.#current !== undefined && (host !== this.#current.host || port !== this.#current.port);
  }

  /** Where and how to connect. @throws when no server accepts writes */
  async locate(): Promise<Route> {
    return this.#only() ?? this.#current ?? this.#search();
  }

  /** Makes the next connection search again. */
  forget(route: Route | undefined): void {
    if (route === this.#current) this.#current = undefined;
  }

  /**
   * Connects to the server, of several to all of them, apart from any pool.
   * @param stop gives up
   * @throws the connection error when none accepts writes
   */
  async probe(stop: AbortSignal): Promise<void> {
    const isOnly = this.target.servers.length === 1;
    const known = this.#only() ?? (isOnly ? this.#current : undefined);
    if (known === undefined) await this.#search();
    else await this.#try(known, { stop });
  }

  /** The only way to connect; undefined when there are several. */
  #only(): Route | undefined {
    const [address, second] = this.target.servers;
    if (address === undefined || second !== undefined) return undefined;
    const [route, other] = this.#routesTo(address);
    return other === undefined ? route : undefined;
  }

  #routesTo(address: ServerAddress): Route[] {
    const { attempts, isDirect } = this.#target.tls;
    // As for libpq, what a socket of this machine carries is not encrypted.
    const possible = address.host.startsWith('/') ? [false as const] : attempts;
    return possible.map((tls) => ({ ...address, tls, isDirect: isDirect && tls !== false }));
  }

  /** Concurrent callers share one search. */
  #search(): Promise<Route> {
    this.#searching ??= this.#searchAll().finally(() => (this.#searching = undefined));
    return this.#searching;
  }

  async #searchAll(): Promise<Route> {
    const { servers } = this.target;
    const failures: unknown[] = [];
    const timeoutMs = servers.length === 1 ? ONLY_SERVER_TIMEOUT_MS : SERVER_TIMEOUT_MS;
    const attempts = servers.map((address) =>
      this.#negotiate(address, timeoutMs).then(
        (route) => ({ route }),
        (error: unknown) => ({ error }),
      ),
    );
    for (const attempt of attempts) {
      const found = await attempt;
      if ('route' in found) {
        if (this.#current === undefined || this.isElsewhere(found.route)) this.#current = found.route;
        return this.#current;
      }
      failures.push(found.error);
    }
    this.#current = undefined;
    if (servers.length === 1) throw failures[0];
    // A wrong password is not to be retried.
    const lasting = failures.find((error) => !isTransient(error));
    if (lasting !== undefined) throw lasting;
    throw new AggregateError(failures, 'no server of the list accepts writes');
  }

  /** Finds out whether to encrypt, where the URL leaves that open. @throws what says most about the server */
  async #negotiate(address: ServerAddress, timeoutMs: number): Promise<Route> {
    let failure: unknown;
    for (const route of this.#routesTo(address)) {
      try {
        await this.#try(route, { timeoutMs });
        return route;
      } catch (error) {
        if (isTransient(error)) throw error;
        // The server's own words, if there are any: a server without TLS has none for an attempt with it.
        if (codeOf(failure) === undefined) failure = error;
      }
    }
    throw failure;
  }

  async #try(
    route: Route,
    { timeoutMs = 0, stop }: { readonly timeoutMs?: number; readonly stop?: AbortSignal },
  ): Promise<void> {
    const client = new ServiceClient({
      servers: this,
      route,
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

/** The URL of a source. */
export function currentUrl(source: DatabaseUrlSource): string {
  return typeof source === 'string' ? source : source();
}

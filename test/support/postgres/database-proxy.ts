import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Where PostgreSQL listens. */
type Target = { readonly path: string } | { readonly host: string; readonly port: number };

/** A way to a PostgreSQL server that can be shut off as a network can. */
export class DatabaseProxy {
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #silent = false;
  #port = 0;

  private constructor(
    private readonly target: Target,
    private readonly source: URL,
  ) {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Opens a way to the server of a database URL (over a Unix socket or TCP). */
  static async open(databaseUrl: string): Promise<DatabaseProxy> {
    const source = new URL(databaseUrl);
    const port = source.port === '' ? '5432' : source.port;
    const directory = source.searchParams.get('host');
    const target =
      directory === null
        ? { host: source.hostname, port: Number(port) }
        : { path: `${directory}/.s.PGSQL.${port}` };
    const proxy = new DatabaseProxy(target, source);
    await proxy.allow();
    return proxy;
  }

  /** The database's URL by this way. */
  get url(): string {
    const url = new URL(this.source);
    url.searchParams.delete('host');
    url.hostname = '127.0.0.1';
    url.port = String(this.#port);
    return url.toString();
  }

  /** Connections that were made by this way and are open. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Lets everything through: new connections, and what waits in the silent ones. */
  async allow(): Promise<void> {
    this.#silent = false;
    for (const pair of this.#pairs) for (const socket of pair) socket.resume();
    if (this.#server.listening) return;
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (typeof address === 'object' && address !== null) this.#port = address.port;
  }

  /** From now on no byte passes in either direction; connections are taken and hear nothing. */
  silence(): void {
    this.#silent = true;
    for (const pair of this.#pairs) for (const socket of pair) socket.pause();
  }

  /** Breaks every connection; new ones still get through. */
  cut(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  /** Breaks every connection and refuses new ones. */
  async refuse(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }

  #accept(client: Socket): void {
    const server = connect(this.target);
    const pair = [client, server] as const;
    this.#pairs.add(pair);
    for (const [from, to] of [pair, [server, client] as const]) {
      from.on('data', (bytes: Buffer) => to.write(bytes));
      from.on('error', () => undefined);
      from.on('close', () => {
        to.destroy();
        this.#pairs.delete(pair);
      });
      if (this.#silent) from.pause();
    }
  }
}

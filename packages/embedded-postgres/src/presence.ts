import { Socket } from 'node:net';
import { Client } from 'pg';
import { CLUSTER_USER } from './cluster-directory.js';
import { SOCKET_PORT } from './socket-directory.js';

export const SERVICE_DATABASE = 'longshore';

const PRESENCE_NAME = 'longshore presence';

export interface OtherClients {
  /** Other services. */
  readonly presences: number;
  /** Application names of the other connections. */
  readonly clients: readonly string[];
}

/**
 * A connection that marks the server as used by a service, and ends with the process. It keeps the process alive only
 * during a query.
 */
export class Presence {
  private closing = false;

  private constructor(
    private readonly client: Client,
    private readonly socket: Socket,
    readonly socketDirectory: string,
  ) {}

  /**
   * Connects, and creates the service's database if needed. Requires the start lock.
   * @param onLost called once when the connection ends without {@link close}
   * @throws the driver's error
   */
  static async open(socketDirectory: string, onLost: () => void): Promise<Presence> {
    const socket = new Socket();
    const client = new Client({
      stream: () => socket,
      host: socketDirectory,
      port: SOCKET_PORT,
      user: CLUSTER_USER,
      password: '',
      database: 'postgres',
      ssl: false,
      application_name: PRESENCE_NAME,
      connectionTimeoutMillis: 10_000,
      query_timeout: 30_000,
    });
    // Without a listener an error would end the process; 'end' always follows.
    client.on('error', () => undefined);
    await client.connect();
    const presence = new Presence(client, socket, socketDirectory);
    try {
      await presence.ensureDatabase();
    } catch (error) {
      await client.end();
      throw error;
    }
    client.on('end', () => {
      if (!presence.closing) onLost();
    });
    socket.unref();
    return presence;
  }

  /** The other current connections. */
  async others(): Promise<OtherClients> {
    this.socket.ref();
    const { rows } = await this.client.query<{ application_name: string }>(
      `select application_name from pg_stat_activity
       where backend_type = 'client backend' and pid <> pg_backend_pid()`,
    );
    const names = rows.map((row) => row.application_name);
    return {
      presences: names.filter((name) => name === PRESENCE_NAME).length,
      clients: names.filter((name) => name !== PRESENCE_NAME),
    };
  }

  async close(): Promise<void> {
    this.closing = true;
    this.socket.ref();
    await this.client.end();
  }

  private async ensureDatabase(): Promise<void> {
    const { rowCount } = await this.client.query('select 1 from pg_database where datname = $1', [
      SERVICE_DATABASE,
    ]);
    if (rowCount === 0) await this.client.query(`create database ${SERVICE_DATABASE}`);
  }
}

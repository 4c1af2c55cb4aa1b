import { Socket } from 'node:net';
import { Client } from 'pg';
import { CLUSTER_USER } from './cluster-directory.js';
import { SOCKET_PORT } from './socket-directory.js';

/** Database in an embedded cluster that the service uses. */
export const SERVICE_DATABASE = 'longshore';

const PRESENCE_NAME = 'longshore presence';

/** Who else is connected to the server. */
export interface OtherClients {
  /** Other holders of a {@link Presence}: services that count on the server. */
  readonly presences: number;
  /** Any other client connection, by application name. */
  readonly clients: readonly string[];
}

/**
 * A connection that says "a service is using this server", for as long as the service lives: it ends with the
 * process whatever ends it, so the server itself always knows who is left. It does not keep the process alive by
 * itself, only while it is asked something.
 */
export class Presence {
  private closing = false;

  private constructor(
    private readonly client: Client,
    private readonly socket: Socket,
    readonly socketDirectory: string,
  ) {}

  /**
   * Connects, and makes sure that the service's database exists (call it under the start lock).
   * `onLost` is called once when the connection ends without {@link close}.
   * @throws the driver's error when the server does not take the connection.
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
    // Without a listener a server that goes away would end the process; 'end' always follows.
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

  /** Everyone else who is connected right now. */
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

  /** Ends the connection. */
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

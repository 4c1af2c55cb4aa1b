import { Socket } from 'node:net';
import { Client } from 'pg';
import { CLUSTER_USER } from './cluster-directory.js';
import { errorCode } from './run-program.js';
import { SOCKET_PORT } from './socket-directory.js';

export const SERVICE_DATABASE = 'longshore';

/** Application name of an owner's connection, before its pid. */
const OWNER_NAME = 'longshore owner ';

/** Advisory lock of the owner, in the database `postgres`, which nothing else uses. */
const OWNER_LOCK = 1;

/** For an owner that was killed, or that is stopping the server. */
const HANDOVER_MS = 5_000;

const LOCK_NOT_AVAILABLE = '55P03';

/** Another process owns the server. */
export class OwnedError extends Error {
  /** @param owner `process 42`, or `another process` when it has no known pid */
  constructor(readonly owner: string) {
    super(`the server belongs to ${owner}`);
  }
}

/**
 * Makes this process the owner of a running server, until the server or the process ends: by a connection that holds an
 * advisory lock. Creates the service's database if needed. The connection keeps the process alive only until then.
 * @param onLost called once, when the connection ends
 * @throws OwnedError when another process remains the owner for 5 seconds; the driver's error
 */
export async function ownServer(socketDirectory: string, onLost: () => void): Promise<void> {
  const socket = new Socket();
  const client = new Client({
    stream: () => socket,
    host: socketDirectory,
    port: SOCKET_PORT,
    user: CLUSTER_USER,
    password: '',
    database: 'postgres',
    ssl: false,
    application_name: `${OWNER_NAME}${process.pid}`,
    connectionTimeoutMillis: 10_000,
    query_timeout: 30_000,
  });
  // Without a listener an error would end the process; 'end' always follows.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await lock(client);
    await ensureDatabase(client);
  } catch (error) {
    await client.end();
    throw error;
  }
  client.on('end', onLost);
  socket.unref();
}

async function lock(client: Client): Promise<void> {
  await client.query(`set lock_timeout = ${HANDOVER_MS}`);
  try {
    await client.query('select pg_advisory_lock($1)', [OWNER_LOCK]);
  } catch (error) {
    if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error;
    const { rows } = await client.query<{ name: string }>(
      `select application_name as name from pg_stat_activity join pg_locks using (pid)
       where locktype = 'advisory' and granted and application_name like $1`,
      [`${OWNER_NAME}%`],
    );
    throw new OwnedError(rows[0]?.name.replace(OWNER_NAME, 'process ') ?? 'another process');
  }
}

async function ensureDatabase(client: Client): Promise<void> {
  const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [SERVICE_DATABASE]);
  if (rowCount === 0) await client.query(`create database ${SERVICE_DATABASE}`);
}

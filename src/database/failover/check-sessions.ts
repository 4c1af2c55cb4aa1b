import { SettingsError } from '@longshore/common/settings/setting';
import { escapeIdentifier } from 'pg';
import type { DataSource } from 'typeorm';
import { readOptions } from './connection-options.js';
import { JOURNAL_SESSION } from './reserved-connection.js';
import { endClient, ServiceClient } from './service-client.js';
import type { SessionSettings } from './session-settings.js';

/** More than one, because other clients of a pooler may use its connections meanwhile. */
const ROUNDS = 5;

const REMEDY =
  'set pool_mode = session in PgBouncer for this database, or connect to PostgreSQL without the pooler';

/**
 * Checks that the database holds every text, and that connections are sessions with the settings of the service. Locks, notifications, prepared statements and
 * timeouts need that; a connection pooler in transaction or statement mode shares its connections between clients.
 *
 * Two connections take turns, with two statements each. A pooler gives the second connection what the first has just used, or
 * each statement another one.
 * @throws SettingsError for another encoding than UTF8, such a pooler, or settings that are not in force
 */
export async function checkSessions(dataSource: DataSource): Promise<void> {
  const { extra } = readOptions(dataSource);
  const open = async (session: SessionSettings): Promise<Session> => {
    const client = new ServiceClient({ ...extra, session });
    client.on('error', () => undefined);
    await client.connect();
    return { client, session, processes: new Set() };
  };
  const sessions: Session[] = [];
  try {
    for (const session of [{}, JOURNAL_SESSION]) sessions.push(await open({ ...extra.session, ...session }));
    for (const { client } of sessions.slice(0, 1)) await checkEncoding(client);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const { client, processes } of sessions) {
        for (let n = 0; n < 2; n += 1) processes.add(await readProcessId(client));
      }
    }
    const processes = sessions.flatMap((session) => [...session.processes]);
    if (processes.length !== sessions.length || new Set(processes).size !== sessions.length) {
      throw new SettingsError([
        `DATABASE_URL: a connection pooler shares connections between clients; ${REMEDY}`,
      ]);
    }
    for (const session of sessions) await checkSettings(session);
  } finally {
    await Promise.all(sessions.map(({ client }) => endClient(client)));
  }
}

interface Session {
  readonly client: ServiceClient;
  readonly session: SessionSettings;
  /** Ids of the server processes that answered. */
  readonly processes: Set<number>;
}

async function readProcessId(client: ServiceClient): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}

/** Another encoding lacks letters, or compares and cuts texts by bytes. */
async function checkEncoding(client: ServiceClient): Promise<void> {
  const { rows } = await client.query<{ encoding: string; name: string; role: string }>(
    `select current_setting('server_encoding') as encoding, current_database() as name, current_user as role`,
  );
  const [{ encoding, name, role } = { encoding: '', name: '', role: '' }] = rows;
  if (encoding === 'UTF8') return;
  const [other, owner] = [`${name}_utf8`, role].map(escapeIdentifier);
  throw new SettingsError([
    `DATABASE_URL: the encoding of the database ${escapeIdentifier(name)} is ${encoding}, which does not hold every text; use one with the encoding UTF8: create database ${other} owner ${owner} template template0 encoding 'UTF8' locale 'C'`,
  ]);
}

async function checkSettings({ client, session }: Session): Promise<void> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [Object.keys(session)],
  );
  const present = new Map(rows.map(({ name, setting }) => [name, setting]));
  const wrong = Object.entries(session).filter(
    ([name, value]) => present.has(name) && present.get(name) !== String(value),
  );
  if (wrong.length === 0) return;
  const list = wrong.map(([name, value]) => `${name} is ${present.get(name)} instead of ${value}`).join(', ');
  throw new SettingsError([
    `DATABASE_URL: the server does not keep the settings of a session (${list}); ${REMEDY}`,
  ]);
}

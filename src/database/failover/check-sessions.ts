import { SettingsError } from '@longshore/common/settings/setting';
import type { DataSource } from 'typeorm';
import { readOptions } from './connection-options.js';
import { JOURNAL_SESSION } from './reserved-connection.js';
import { endClient, ServiceClient, type SessionSettings } from './service-client.js';

/** More than one, because other clients of a pooler may use its connections meanwhile. */
const ROUNDS = 5;

const REMEDY =
  'set pool_mode = session in PgBouncer for this database, or connect to PostgreSQL without the pooler';

/**
 * Checks that connections are sessions with the settings of the service. Locks, notifications, prepared statements and
 * timeouts need that; a connection pooler in transaction or statement mode shares its connections between clients.
 *
 * Two connections take turns, with two statements each. A pooler gives the second connection what the first has just used, or
 * each statement another one.
 * @throws SettingsError for such a pooler, or for settings that are not in force
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
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const { client, processes } of sessions) {
        for (let n = 0; n < 2; n += 1) processes.add(await processOf(client));
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

async function processOf(client: ServiceClient): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}

async function checkSettings({ client, session }: Session): Promise<void> {
  const { rows } = await client.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [Object.keys(session)],
  );
  const present = new Map(rows.map(({ name, setting }) => [name, setting]));
  const wrong = Object.entries(session).filter(([name, value]) => present.get(name) !== String(value));
  if (wrong.length === 0) return;
  const list = wrong.map(([name, value]) => `${name} is ${present.get(name)} instead of ${value}`).join(', ');
  throw new SettingsError([
    `DATABASE_URL: the server does not keep the settings of a session (${list}); ${REMEDY}`,
  ]);
}

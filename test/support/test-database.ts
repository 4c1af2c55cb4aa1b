import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { DataSource, MigrationInterface } from 'typeorm';
import { connectDatabase } from '../../src/database/connect.js';
import { ENTITIES } from '../../src/database/entities/all.js';
import { migrate } from '../../src/database/migrate.js';
import { MIGRATIONS } from '../../migrations/all.js';

const TEMPLATE_LOCK = '8305112946627713';

export interface TestDatabaseOptions {
  /** Default: the service's own. */
  readonly migrations?: readonly (new () => MigrationInterface)[];
  /** Entities of the data sources that are opened on it. Default: the service's own. */
  readonly entities?: readonly (new () => object)[];
  /** URL of a database of the same server to copy, to which nobody is connected; default: an empty one of the migrations. */
  readonly copyOf?: string;
}

/** A migrated, empty database that belongs to one test. */
export interface TestDatabase {
  readonly url: string;
  /** A data source on it, as the service opens one. */
  readonly dataSource: DataSource;
  /** Opens one more, as another process of the service would. */
  open(poolSize?: number): Promise<DataSource>;
  /** Closes every data source and drops the database, whoever is still connected. */
  close(): Promise<void>;
}

/**
 * Opens a fresh database on the test run's PostgreSQL. It is copied from a template that is migrated once per server and
 * set of migrations, so it costs a few dozen milliseconds. Safe while other test files do the same.
 */
export async function openTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { migrations = MIGRATIONS, entities = ENTITIES, copyOf } = options;
  const server = serverUrl();
  const name = `test_${randomBytes(8).toString('hex')}`;
  const template = copyOf ? new URL(copyOf).pathname.slice(1) : await findTemplate(server, migrations);
  const client = await connectionTo(server);
  // Costs less of a small database than to log each page.
  await retryWhileInUse(() =>
    client.query(`create database ${name} template ${template} strategy file_copy`),
  );
  const url = databaseUrl(server, name);
  const opened: DataSource[] = [];
  const open = async (poolSize = 5): Promise<DataSource> => {
    const dataSource = await connectDatabase(
      { url, poolSize, applicationName: 'longshore test', entities, migrations },
      { timeoutMs: 120_000 },
    );
    opened.push(dataSource);
    return dataSource;
  };
  return {
    url,
    open,
    dataSource: await open(),
    close: async () => {
      await Promise.all(opened.filter((source) => source.isInitialized).map((source) => source.destroy()));
      await (await connectionTo(server)).query(`drop database if exists ${name} with (force)`);
    },
  };
}

/** URL of the PostgreSQL server that the tests of this file use; its database is of no interest. */
export function serverUrl(): string {
  const url = process.env['TEST_DATABASE_URL'];
  if (url === undefined)
    throw new Error('TEST_DATABASE_URL is missing: test/support/global-setup.ts sets it');
  return url;
}

/** URL of another database on the same server. */
export function databaseUrl(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.toString();
}

/** Of this process, to the servers by which databases are created and dropped. */
const connections = new Map<string, Promise<Client>>();

/** The names of the templates that this process knows to exist, by server and migrations. */
const templates = new Map<string, Promise<string>>();

function connectionTo(server: string): Promise<Client> {
  const open = connections.get(server);
  if (open !== undefined) return open;
  const forget = (): void => void connections.delete(server);
  const client = new Client({
    connectionString: databaseUrl(server, 'postgres'),
    application_name: 'longshore test',
  });
  client.on('error', forget).on('end', forget);
  const connecting = client.connect().then(() => client);
  connections.set(server, connecting);
  connecting.catch(forget);
  return connecting;
}

function findTemplate(
  server: string,
  migrations: readonly (new () => MigrationInterface)[],
): Promise<string> {
  const source = migrations.map((migration) => `${migration.name} ${migration.toString()}`).join('\n');
  const name = `template_${createHash('sha256').update(source).digest('hex').slice(0, 16)}`;
  const key = `${server} ${name}`;
  let template = templates.get(key);
  if (template === undefined) {
    template = makeTemplate(server, name, migrations).then(() => name);
    templates.set(key, template);
    template.catch(() => templates.delete(key));
  }
  return template;
}

/** Does nothing when it exists; makes it under another name first, so that it exists whole or not at all. */
async function makeTemplate(
  server: string,
  name: string,
  migrations: readonly (new () => MigrationInterface)[],
): Promise<void> {
  const client = await connectionTo(server);
  const unfinished = `${name}_unfinished`;
  await client.query('select pg_advisory_lock($1::bigint)', [TEMPLATE_LOCK]);
  try {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [name]);
    if (rowCount !== 0) return;
    await client.query(`drop database if exists ${unfinished} with (force)`);
    await client.query(`create database ${unfinished}`);
    const dataSource = await connectDatabase(
      {
        url: databaseUrl(server, unfinished),
        poolSize: 1,
        applicationName: 'longshore test template',
        entities: [],
        migrations,
      },
      { timeoutMs: 120_000 },
    );
    await migrate(dataSource);
    await dataSource.destroy();
    await retryWhileInUse(() => client.query(`alter database ${unfinished} rename to ${name}`));
  } finally {
    await client.query('select pg_advisory_unlock($1::bigint)', [TEMPLATE_LOCK]);
  }
}

/** A connection that was closed may still be ending in the server, and autovacuum looks in now and then. */
async function retryWhileInUse(action: () => Promise<unknown>): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await action();
      return;
    } catch (error) {
      const inUse = error instanceof Error && 'code' in error && error.code === '55006';
      if (!inUse || attempt === 100) throw error;
      await sleep(50);
    }
  }
}

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Client } from 'pg';
import { SettingsError } from '@longshore/common/settings/setting';
import type { DataSource } from 'typeorm';
import { MIGRATIONS } from '../../../migrations/all.js';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { checkSessions } from '../../../src/database/failover/check-sessions.js';
import { migrate } from '../../../src/database/migrate.js';
import { rows } from '../../../src/database/sql/sql.js';
import { startTestApp } from '../../support/app/test-app.js';
import { databaseUrl, serverUrl } from '../../support/test-database.js';

/** Databases and roles as an administrator makes them, on the server of the test run. */
class Administrator {
  readonly #undo: string[] = [];
  readonly #opened: DataSource[] = [];

  private constructor(private readonly client: Client) {}

  static async connect(): Promise<Administrator> {
    const client = new Client({ connectionString: databaseUrl(serverUrl(), 'postgres') });
    await client.connect();
    return new Administrator(client);
  }

  /** @param clause of `create database` @returns its name */
  async createDatabase(clause = ''): Promise<string> {
    const name = `unfit_${randomBytes(6).toString('hex')}`;
    await this.client.query(`create database ${name} template template0 ${clause}`);
    this.#undo.unshift(`drop database if exists ${name} with (force)`);
    return name;
  }

  /** A role without any right but those that every role has. */
  async createRole(): Promise<string> {
    const name = `role_${randomBytes(6).toString('hex')}`;
    await this.client.query(`create role ${name} login`);
    this.#undo.push(`drop role ${name}`);
    return name;
  }

  /** Runs a statement of an administrator in a database. */
  async run(database: string, sql: string): Promise<Record<string, unknown>[]> {
    const client = new Client({ connectionString: databaseUrl(serverUrl(), database) });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** As a process of the service connects. */
  async open(database: string, role?: string): Promise<DataSource> {
    const url = new URL(databaseUrl(serverUrl(), database));
    if (role !== undefined) url.username = role;
    const settings = { url: url.href, poolSize: 3, applicationName: 'spec of databases', entities: ENTITIES };
    const source = await connectDatabase({ ...settings, migrations: MIGRATIONS }, { timeoutMs: 120_000 });
    this.#opened.push(source);
    return source;
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#opened.filter((source) => source.isInitialized).map((source) => source.destroy()),
    );
    for (const sql of this.#undo) await this.client.query(sql);
    await this.client.end();
  }
}

describe('a database that an administrator made', () => {
  let administrator: Administrator;

  beforeAll(async () => {
    administrator = await Administrator.connect();
  });
  afterAll(() => administrator.close());

  for (const encoding of ['LATIN1', 'SQL_ASCII']) {
    it(`with the encoding ${encoding} is refused with the statement that makes the right one`, async () => {
      const name = await administrator.createDatabase(`encoding '${encoding}' locale 'C'`);
      const [statement = ''] = await checkSessions(await administrator.open(name)).then(
        () => assert.fail('it was taken'),
        (error: unknown) => {
          assert.ok(error instanceof SettingsError, String(error));
          assert.match(
            error.message,
            new RegExp(`^DATABASE_URL: the encoding of .*"${name}" is ${encoding}, `),
          );
          return /create database .*/.exec(error.message) ?? [];
        },
      );
      await administrator.run('postgres', statement);
      try {
        await checkSessions(await administrator.open(`${name}_utf8`));
      } finally {
        await administrator.run('postgres', `drop database ${name}_utf8 with (force)`);
      }
    });
  }

  it('has the settings of the service in every session, whatever role and database set', async () => {
    const name = await administrator.createDatabase();
    for (const [setting, value] of [
      ['default_transaction_isolation', 'serializable'],
      ['datestyle', 'German, DMY'],
      ['timezone', 'Asia/Kathmandu'],
      ['intervalstyle', 'iso_8601'],
      ['extra_float_digits', '-15'],
      ['bytea_output', 'escape'],
      ['idle_session_timeout', '1s'],
      ['transaction_timeout', '1s'],
    ]) {
      await administrator.run('postgres', `alter database ${name} set ${setting} = '${value}'`);
    }
    const source = await administrator.open(name);
    await checkSessions(source);
    const [row] = await rows(
      source,
      `select current_setting('transaction_isolation') as isolation, timestamptz '2026-11-05 10:00:00.5+00' as at,
              timestamptz '2026-11-05 10:00:00.5+00'::text as text, 0.1::float8 as number, '\\x00ff'::bytea as bytes,
              interval '90 minutes'::text as span, current_setting('idle_session_timeout') as idle`,
    );
    assert.deepEqual(row, {
      isolation: 'read committed',
      at: new Date('2026-11-05T10:00:00.500Z'),
      text: '2026-11-05 10:00:00.5+00',
      number: 0.1,
      bytes: Buffer.from([0, 255]),
      span: '01:30:00',
      idle: '0',
    });
  });

  it('shared with programs that have tables of the same names is left as it was, and the table is named', async () => {
    const name = await administrator.createDatabase();
    const tables = `select relname as name from pg_class where relnamespace = 'public'::regnamespace order by 1`;
    await administrator.run(
      name,
      'create table migrations (id integer, migration text); create table runs (n integer)',
    );
    const before = await administrator.run(name, tables);
    await assert.rejects(migrate(await administrator.open(name)), (error) => {
      assert.match(
        String(error),
        /relation "runs" already exists; another program uses the schema public: .*create schema/,
      );
      return true;
    });
    assert.deepEqual(await administrator.run(name, tables), before);

    await administrator.run(name, 'drop table runs');
    assert.equal((await migrate(await administrator.open(name))).length, MIGRATIONS.length);
    assert.deepEqual(await administrator.run(name, 'select * from migrations'), []);
    assert.deepEqual(await migrate(await administrator.open(name)), []);
  });

  it('has its own table of migrations beside that of a deployment in another schema of the search path', async () => {
    const name = await administrator.createDatabase();
    await migrate(await administrator.open(name));
    await administrator.run(name, 'create schema second');
    await administrator.run('postgres', `alter database ${name} set search_path = second, public`);
    assert.equal((await migrate(await administrator.open(name))).length, MIGRATIONS.length);
    const [found] = await administrator.run(name, `select to_regclass('second.runs')::text as runs`);
    assert.deepEqual(found, { runs: 'runs' });
  });

  it('in which the role may create nothing is refused in the words of PostgreSQL, with the statement that helps', async () => {
    const name = await administrator.createDatabase();
    const role = await administrator.createRole();
    const refused = await migrate(await administrator.open(name, role)).catch(String);
    assert.match(
      String(refused),
      /permission denied for schema public; as an administrator: alter database /,
    );
    const [statement = ''] = /alter database .*/.exec(String(refused)) ?? [];
    await administrator.run('postgres', statement);
    assert.equal((await migrate(await administrator.open(name, role))).length, MIGRATIONS.length);
  });

  it('with one schema for a role without other rights serves runs', async () => {
    const name = await administrator.createDatabase();
    const role = await administrator.createRole();
    await administrator.run(
      name,
      `revoke all on database ${name} from public; grant connect on database ${name} to ${role}`,
    );
    await administrator.run(name, `revoke all on schema public from public`);
    const noSchema = String(await migrate(await administrator.open(name, role)).catch(String));
    assert.match(noSchema, /no schema has been selected to create in; as an administrator: create schema /);
    const [statement = ''] = /create schema .*/.exec(noSchema) ?? [];
    await administrator.run(name, statement);
    const source = await administrator.open(name, role);
    await checkSessions(source);
    assert.equal((await migrate(source)).length, MIGRATIONS.length);
    const app = await startTestApp({
      database: {
        url: '',
        dataSource: source,
        open: () => administrator.open(name, role),
        close: () => Promise.resolve(),
      },
    });
    try {
      const run = await app.send('POST', '/runs', { body: { image: 'i' } });
      assert.equal(run.status, 201, run.text);
      assert.equal((await app.send('GET', '/health', { key: null })).status, 200);
      const [tables] = await administrator.run(
        name,
        `select schemaname as schema from pg_tables where tablename = 'runs'`,
      );
      assert.deepEqual(tables, { schema: role });
    } finally {
      await app.close();
    }
  });
});

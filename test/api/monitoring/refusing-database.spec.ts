import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@longshore/embedded-postgres';
import { MIGRATIONS } from '../../../migrations/all.js';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { migrate } from '../../../src/database/migrate.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { assertHealth } from '../../support/monitoring/health.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { until } from '../../support/service-process.js';
import { makeTestDirectory, THROW_AWAY } from '../../support/test-cluster.js';
import { databaseUrl } from '../../support/test-database.js';
import { startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';

const DETAIL = 'The database is not available';

describe('a database that answers but refuses', () => {
  let directory: string;
  let postgres: EmbeddedPostgres;
  let service: TestApp;
  let administrator: Client;
  const opened: DataSource[] = [];

  beforeAll(async () => {
    directory = await makeTestDirectory('refusing-');
    postgres = await startEmbeddedPostgres({
      dataDir: join(directory, 'data'),
      // The smallest queue of notifications.
      serverOptions: { ...THROW_AWAY, max_notify_queue_pages: '64' },
      log: () => undefined,
    });
    administrator = await session('postgres');
    await administrator.query('create database served');
    const url = databaseUrl(postgres.url, 'served');
    const open = async (poolSize = 5): Promise<DataSource> => {
      const settings = { url, poolSize, applicationName: 'longshore test', entities: ENTITIES };
      const source = await connectDatabase({ ...settings, migrations: MIGRATIONS }, { timeoutMs: 120_000 });
      opened.push(source);
      return source;
    };
    const dataSource = await open(2);
    await migrate(dataSource);
    service = await startTestApp({ database: { url, dataSource, open, close: () => Promise.resolve() } });
  });
  afterAll(async () => {
    await service.close();
    await Promise.all(opened.filter((source) => source.isInitialized).map((source) => source.destroy()));
    await administrator.end();
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  });

  async function session(database: string): Promise<Client> {
    const client = new Client({
      connectionString: databaseUrl(postgres.url, database),
      application_name: 'another program',
    });
    await client.connect();
    return client;
  }

  const create = (): Promise<TestAnswer> => service.send('POST', '/runs', { body: { image: 'i' } });
  const health = (): Promise<TestAnswer> => service.send('GET', '/health', { key: null });

  async function assertRefused(): Promise<void> {
    const refused = await create();
    assertError(refused, 503, DETAIL);
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  }

  async function untilWell(): Promise<void> {
    await until(async () => (await health()).status === 200, 'health is well again');
    assertHealth(await health());
    assert.equal((await create()).status, 201);
  }

  test('because a session holds the queue of notifications: 503, not healthy, measured, and the log names the session', async () => {
    const holder = await session('served');
    await holder.query('listen held');
    await holder.query('begin');
    await holder.query('select 1');
    const { rows: own } = await holder.query<{ pid: number }>('select pg_backend_pid() as pid');
    const filler = await session('served');
    for (const [size, count] of [
      [7_000, 10],
      [7_000, 1],
      [10, 100],
      [10, 1],
    ] as const) {
      const fill = `select pg_notify('held', repeat('x', ${size}) || n) from generate_series(1, ${count}) n`;
      const isTaken = (): Promise<boolean> => filler.query(fill).then(Boolean, () => false);
      while (await isTaken()) continue;
    }
    await filler.end();
    await assertRefused();
    assertHealth(await health(), { database: 'refusing' });
    const scrape = await Scrape.of(service.send);
    assert.ok((scrape.value('longshore_database_notification_queue_usage') ?? 0) > 0.9);
    assert.equal(scrape.value('longshore_database_refusing'), 1);
    const refusals = (): readonly Record<string, unknown>[] =>
      service.logged.filter(({ msg }) => msg === 'the database refuses writes or connections');
    await assertRefused();
    const [line, second] = refusals();
    assert.match(JSON.stringify(line), new RegExp(`"pid":${own[0]?.pid},`));
    assert.match(JSON.stringify(line), /another program/);
    assert.equal(second, undefined, 'the cause is logged once');
    await holder.end();
    await untilWell();
  });

  async function administratorOf(database: string, sql: string): Promise<boolean> {
    const client = await session(database);
    try {
      await client.query(sql);
      return true;
    } catch {
      return false;
    } finally {
      await client.end();
    }
  }

  test('because it is read-only for a while', async () => {
    await administrator.query('alter database served set default_transaction_read_only = on');
    await administrator.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = 'served'`,
    );
    await until(async () => (await health()).status === 503, 'health says so');
    await assertRefused();
    assert.match(JSON.stringify(service.logged), /default_transaction_read_only is on/);
    await administrator.query('alter database served reset default_transaction_read_only');
    await untilWell();
  });

  test('because it was renamed, or accepts no connections', async () => {
    for (const [away, back] of [
      ['alter database served rename to elsewhere', 'alter database elsewhere rename to served'],
      [
        'alter database served with allow_connections false',
        'alter database served with allow_connections true',
      ],
    ] as const) {
      await until(async () => {
        await administrator.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = 'served'`,
        );
        return administratorOf('postgres', away);
      }, 'nobody is connected');
      await administrator.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname in ('served', 'elsewhere')`,
      );
      await until(async () => (await health()).status === 503, 'health says so');
      await assertRefused();
      await administrator.query(back);
      await untilWell();
    }
  });

  test('because a new role or password is in use, follows the file of the URL without a restart', async () => {
    const url = new URL(databaseUrl(postgres.url, 'served'));
    await administrator.query('create role before login; create role after login');
    url.username = 'before';
    const source = await connectDatabase(
      { url: () => url.href, poolSize: 1, applicationName: 'rotated', entities: [], migrations: [] },
      { timeoutMs: 120_000 },
    );
    opened.push(source);
    url.username = 'after';
    await administrator.query(`alter role before nologin`);
    await execute(source, 'select pg_terminate_backend(pg_backend_pid())').catch(() => undefined);
    // Until the pool has noticed the end of its connection.
    const role = async (): Promise<unknown> =>
      (await rows<{ role: string }>(source, 'select current_user as role').catch(() => []))[0]?.role;
    await until(async () => (await role()) === 'after', 'the new role is in use');
  });
});

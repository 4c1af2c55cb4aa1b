import assert from 'node:assert/strict';
import { readFile, rm, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Client } from 'pg';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import { readPostmasterFile, servesCluster } from '@longshore/embedded-postgres/postmaster-file';
import { boundServerLog, logPath } from '@longshore/embedded-postgres/server-log';
import { socketPath } from '@longshore/embedded-postgres/socket-directory';
import { startEmbeddedPostgresProcess } from '../../support/embedded-postgres-process.js';
import { endServer, makeTestDirectory, THROW_AWAY } from '../../support/test-cluster.js';

const quiet = (): void => undefined;

async function ask<T>(url: string, sql: string): Promise<T[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<T & object>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function serverRuns(cluster: string): Promise<boolean> {
  const file = await readPostmasterFile(cluster);
  return file !== null && servesCluster(file.pid, cluster);
}

describe('the embedded PostgreSQL', () => {
  let directory: string;

  beforeAll(async () => {
    directory = await makeTestDirectory('embedded-');
  });

  afterAll(async () => {
    for (const name of ['fresh', 'shared', 'busy', 'settings', 'group', 'three']) {
      await endServer(join(directory, name, 'postgres'));
    }
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  });

  it('makes a durable cluster that only its owner can reach, and keeps its data over a restart', async () => {
    const dataDir = relative(process.cwd(), join(directory, 'fresh'));
    const first = await startEmbeddedPostgres({ dataDir, log: quiet });
    assert.equal(first.dataDir, join(directory, 'fresh', 'postgres'));
    const settings = await ask<{ name: string; setting: string }>(
      first.url,
      `select name, setting from pg_settings where name in ('fsync', 'synchronous_commit', 'full_page_writes',
        'listen_addresses', 'max_connections', 'unix_socket_directories', 'server_encoding') order by name`,
    );
    const value = new Map(settings.map(({ name, setting }) => [name, setting]));
    assert.deepEqual(
      [...value].filter(([name]) => name !== 'unix_socket_directories'),
      [
        ['fsync', 'on'],
        ['full_page_writes', 'on'],
        ['listen_addresses', ''],
        ['max_connections', '200'],
        ['server_encoding', 'UTF8'],
        ['synchronous_commit', 'on'],
      ],
    );
    const socketDirectory = value.get('unix_socket_directories') ?? '';
    assert.equal((await stat(socketDirectory)).mode & 0o777, 0o700);
    assert.ok(Buffer.byteLength(socketPath(socketDirectory)) < 107);
    await ask(first.url, 'create table kept (n integer); insert into kept values (42)');
    await Promise.all([first.stop(), first.stop()]);
    assert.equal(await serverRuns(first.dataDir), false);
    await assert.rejects(stat(socketDirectory), { code: 'ENOENT' });

    const second = await startEmbeddedPostgres({ dataDir, log: quiet });
    assert.equal(second.url, first.url);
    assert.deepEqual(await ask(second.url, 'select n from kept'), [{ n: 42 }]);
    await second.stop();
    assert.equal(await serverRuns(first.dataDir), false);
    await first.stop();
  });

  it('takes server options, but none that would open it to others', async () => {
    const server = await startEmbeddedPostgres({
      dataDir: join(directory, 'settings'),
      log: quiet,
      serverOptions: {
        ...THROW_AWAY,
        work_mem: '5MB',
        listen_addresses: '*',
        'my.note': `it's "$HOME" \\ x`,
      },
    });
    const [row] = await ask<Record<string, string>>(
      server.url,
      `select current_setting('work_mem') as work_mem, current_setting('listen_addresses') as listen,
        current_setting('my.note') as note`,
    );
    assert.deepEqual(row, { work_mem: '5MB', listen: '', note: `it's "$HOME" \\ x` });
    await server.stop();
    await assert.rejects(
      startEmbeddedPostgres({
        dataDir: join(directory, 'settings'),
        log: quiet,
        serverOptions: { no_such_setting: '1' },
      }),
      /did not start: .*no_such_setting/s,
    );
  });

  it('keeps its log within bounds while the server writes on', async () => {
    const server = await startEmbeddedPostgres({
      dataDir: join(directory, 'settings'),
      log: quiet,
      serverOptions: { ...THROW_AWAY, log_min_messages: 'log', log_statement: 'all' },
    });
    const log = logPath(server.dataDir);
    await boundServerLog(server.dataDir, 10);
    assert.ok((await stat(`${log}.1`)).size > 10);
    assert.equal((await stat(log)).size, 0);
    await ask(server.url, 'select 4711');
    assert.match(await readFile(log, 'utf8'), /^[^\0]*select 4711/);
    await server.stop();
  });

  it('serves several services on one data directory until the last one stops', async () => {
    const options = { dataDir: join(directory, 'shared'), log: quiet, serverOptions: THROW_AWAY };
    const first = await startEmbeddedPostgres(options);
    const second = await startEmbeddedPostgres(options);
    assert.equal(second.url, first.url);
    await first.stop();
    assert.deepEqual(await ask(second.url, 'select 1 as one'), [{ one: 1 }]);
    await second.stop();
    assert.equal(await serverRuns(second.dataDir), false);
  });

  it('does not stop under a client that is still connected', async () => {
    const options = { dataDir: join(directory, 'busy'), serverOptions: THROW_AWAY };
    const messages: string[] = [];
    const server = await startEmbeddedPostgres({ ...options, log: (message) => messages.push(message) });
    const client = new Client({ connectionString: server.url, application_name: 'somebody' });
    await client.connect();
    await server.stop();
    assert.match(messages.at(-1) ?? '', /left the database running/);
    assert.equal((await client.query('select 1')).rowCount, 1);
    await client.end();
    const next = await startEmbeddedPostgres({ ...options, log: quiet });
    await next.stop();
    assert.equal(await serverRuns(server.dataDir), false);
  });

  it('starts once for three processes that ask at the same time, and ends with the last', async () => {
    const dataDir = join(directory, 'three');
    const services = [1, 2, 3].map(() =>
      startEmbeddedPostgresProcess({ dataDir, serverOptions: THROW_AWAY }),
    );
    const urls = await Promise.all(
      services.map(async (service) => {
        const { url } = await service.ready;
        return url;
      }),
    );
    assert.equal(new Set(urls).size, 1);
    const [url = ''] = urls;
    assert.deepEqual(await ask(url, 'select 1 as one'), [{ one: 1 }]);
    const logs = services.flatMap((service) => service.log).join('\n');
    assert.equal(logs.match(/created a new database/g)?.length, 1);
    assert.equal(logs.match(/started the database/g)?.length, 1);
    assert.equal(logs.match(/attached to the running database/g)?.length, 2);
    assert.deepEqual(await Promise.all(services.map((service) => service.stop())), [0, 0, 0]);
    assert.equal(await serverRuns(join(dataDir, 'postgres')), false);
  });

  it('stands outside the process group of the service, so that Ctrl-C does not reach it first', async () => {
    const service = startEmbeddedPostgresProcess({
      dataDir: join(directory, 'group'),
      serverOptions: THROW_AWAY,
    });
    const { url, dataDir } = await service.ready;
    const group = -(service.child.pid ?? 0);
    process.kill(group, 'SIGINT');
    await service.kill();
    assert.throws(() => process.kill(group, 0), { code: 'ESRCH' }, 'the server is in the group');
    assert.equal(await serverRuns(dataDir), true);
    assert.deepEqual(await ask(url, 'select 1 as one'), [{ one: 1 }]);
    const next = await startEmbeddedPostgres({ dataDir: dirname(dataDir), log: quiet });
    await next.stop();
    assert.equal(await serverRuns(dataDir), false);
  });
});

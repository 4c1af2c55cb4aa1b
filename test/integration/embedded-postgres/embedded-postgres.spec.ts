import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
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
    for (const name of ['fresh', 'owned', 'busy', 'settings', 'group', 'three', 'original', 'copy']) {
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

  it('refuses a second owner at once or later, naming the first, which goes on', async () => {
    const options = { dataDir: join(directory, 'owned'), log: quiet, serverOptions: THROW_AWAY };
    const owner = await startEmbeddedPostgres(options);
    const refusal = new RegExp(
      `^Error: The data directory ${options.dataDir} is in use: .* belongs to process ${process.pid}\\. ` +
        '.*DATABASE_URL.*SERVICE_DATA_DIR',
    );
    await assert.rejects(startEmbeddedPostgres(options), refusal);
    assert.deepEqual(await ask(owner.url, 'select 1 as one'), [{ one: 1 }]);
    await owner.stop();
    assert.equal(await serverRuns(owner.dataDir), false);
    const next = await startEmbeddedPostgres(options);
    await next.stop();
  });

  it('has one owner when three processes start on an empty folder at the same time', async () => {
    const dataDir = join(directory, 'three');
    const services = [1, 2, 3].map(() =>
      startEmbeddedPostgresProcess({ dataDir, serverOptions: THROW_AWAY }),
    );
    const starts = await Promise.allSettled(services.map((service) => service.ready));
    const [owner, ...more] = services.filter((_service, index) => starts[index]?.status === 'fulfilled');
    assert.ok(owner !== undefined && more.length === 0, services.flatMap(({ log }) => log).join('\n'));
    for (const service of services.filter((other) => other !== owner)) {
      const refusal = new RegExp(`is in use: .* belongs to process ${owner.child.pid}`);
      assert.match(service.log.join('\n'), refusal);
    }
    const { url } = await owner.ready;
    await ask(url, 'create table kept (n integer); insert into kept values (3)');
    assert.deepEqual(await readdir(dataDir), ['postgres']);
    assert.equal(await owner.stop(), 0);
    const next = await startEmbeddedPostgres({ dataDir, log: quiet });
    assert.deepEqual(await ask(next.url, 'select n from kept'), [{ n: 3 }]);
    await next.stop();
    assert.equal(await serverRuns(next.dataDir), false);
  });

  it('stops while a client is connected', async () => {
    const server = await startEmbeddedPostgres({
      dataDir: join(directory, 'busy'),
      log: quiet,
      serverOptions: THROW_AWAY,
    });
    const client = new Client({ connectionString: server.url });
    const ended = new Promise((resolve) => client.once('end', resolve));
    client.on('error', quiet);
    await client.connect();
    await server.stop();
    await ended;
    assert.equal(await serverRuns(server.dataDir), false);
  });

  it('runs on a copy of a data folder beside the original, which goes on', async () => {
    const options = { log: quiet, serverOptions: { ...THROW_AWAY, full_page_writes: 'on' } };
    const original = await startEmbeddedPostgres({ ...options, dataDir: join(directory, 'original') });
    await ask(original.url, 'create table kept (n integer); insert into kept values (1)');
    await ask(original.url, 'checkpoint');
    await promisify(execFile)('cp', ['-a', join(directory, 'original'), join(directory, 'copy')]);
    const copy = await startEmbeddedPostgres({ ...options, dataDir: join(directory, 'copy') });
    assert.notEqual(copy.url, original.url);
    await ask(copy.url, 'insert into kept values (2)');
    assert.deepEqual(await ask(original.url, 'select n from kept'), [{ n: 1 }]);
    await copy.stop();
    assert.deepEqual(await ask(original.url, 'select n from kept'), [{ n: 1 }]);
    await original.stop();
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

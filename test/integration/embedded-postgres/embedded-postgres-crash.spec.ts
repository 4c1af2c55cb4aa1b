import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import { processRuns } from '../../support/programs/child-processes.js';
import { readPostmasterFile, servesCluster } from '@longshore/embedded-postgres/postmaster-file';
import { socketPath } from '@longshore/embedded-postgres/socket-directory';
import { startEmbeddedPostgresProcess } from '../../support/embedded-postgres-process.js';
import { endServer, makeTestDirectory } from '../../support/test-cluster.js';

/** Two minutes, not for the usual case but for a machine that is busy with other tests. */
const PATIENCE = 120_000;

const quiet = (): void => undefined;

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  client.on('error', quiet);
  await client.connect();
  try {
    return (await client.query<object>(sql)).rows;
  } finally {
    await client.end().catch(quiet);
  }
}

async function pidOf(cluster: string): Promise<number> {
  const file = await readPostmasterFile(cluster);
  assert.ok(file !== null, 'there is no pid file');
  return file.pid;
}

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + PATIENCE;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `timed out: ${what}`);
    await sleep(20);
  }
}

async function killServer(cluster: string): Promise<number> {
  const pid = await pidOf(cluster);
  process.kill(pid, 'SIGKILL');
  await until(async () => !(await processRuns(pid)), 'the server did not die');
  return pid;
}

describe('the embedded PostgreSQL after a crash', () => {
  let directory: string;
  let dataDir: string;
  let cluster: string;

  beforeAll(async () => {
    directory = await makeTestDirectory('crash-');
    dataDir = join(directory, 'data');
    cluster = join(dataDir, 'postgres');
    const service = startEmbeddedPostgresProcess({ dataDir });
    const { url } = await service.ready;
    await query(url, 'create table kept (n integer)');
    assert.equal(await service.stop(), 0);
  });

  afterAll(async () => {
    for (const name of ['data', 'half']) await endServer(join(directory, name, 'postgres'));
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  });

  /** Leaves behind what a machine leaves whose processes were all killed; answers the dead server's pid. */
  async function crash(): Promise<number> {
    const service = startEmbeddedPostgresProcess({ dataDir });
    const { url } = await service.ready;
    await query(url, 'insert into kept select coalesce(max(n), 0) + 1 from kept');
    await service.kill();
    return killServer(cluster);
  }

  /** Puts the pid of another program, of the same account, into the files of a dead server. */
  async function givePidAway(): Promise<ChildProcess> {
    const { uid, gid } = await stat(cluster);
    const stranger = spawn('sleep', ['1000'], {
      stdio: 'ignore',
      cwd: '/',
      ...(process.getuid?.() === 0 ? { uid, gid } : {}),
    });
    await once(stranger, 'spawn');
    const file = await readPostmasterFile(cluster);
    const socketLock = `${socketPath(file?.socketDirectory ?? '')}.lock`;
    for (const path of [join(cluster, 'postmaster.pid'), socketLock]) {
      const [, ...rest] = (await readFile(path, 'utf8')).split('\n');
      await writeFile(path, [String(stranger.pid), ...rest].join('\n'));
    }
    return stranger;
  }

  /** Starts, compares the rows with what was acknowledged before, stops. */
  async function assertStarts(): Promise<void> {
    const server = await startEmbeddedPostgres({ dataDir, log: quiet });
    await query(server.url, 'insert into kept select coalesce(max(n), 0) + 1 from kept');
    const [row] = await query(server.url, 'select count(*)::integer as count, max(n) as last from kept');
    await server.stop();
    acknowledged += 1;
    assert.deepEqual(row, { count: acknowledged, last: acknowledged });
  }

  let acknowledged = 0;

  it('starts over a stale pid file with every acknowledged row', async () => {
    await crash();
    acknowledged += 1;
    await assertStarts();
  });

  it('starts when the pid of the dead server belongs to another program now', async () => {
    await crash();
    acknowledged += 1;
    const stranger = await givePidAway();
    try {
      await assertStarts();
      assert.equal(stranger.exitCode, null);
      assert.equal(stranger.signalCode, null);
    } finally {
      stranger.kill('SIGKILL');
    }
  });

  it('starts over an empty pid file', async () => {
    await crash();
    acknowledged += 1;
    await writeFile(join(cluster, 'postmaster.pid'), '');
    await assertStarts();
  });

  it('takes over the server that a killed service left running', async () => {
    const service = startEmbeddedPostgresProcess({ dataDir });
    const { url } = await service.ready;
    const pid = await pidOf(cluster);
    await service.kill();
    const next = await startEmbeddedPostgres({ dataDir, log: quiet });
    assert.equal(next.url, url);
    assert.equal(await pidOf(cluster), pid);
    await next.stop();
    assert.equal(await servesCluster(pid, cluster), false);
  });

  for (const remains of ['a running server', 'a stale pid file', 'a pid file of another program'] as const) {
    it(`has one owner when two processes start at once after a crash that left ${remains}`, async () => {
      if (remains === 'a running server') {
        const service = startEmbeddedPostgresProcess({ dataDir });
        const { url } = await service.ready;
        await query(url, 'insert into kept select coalesce(max(n), 0) + 1 from kept');
        await service.kill();
      } else {
        await crash();
      }
      acknowledged += 1;
      const stranger = remains === 'a pid file of another program' ? await givePidAway() : undefined;
      const services = [startEmbeddedPostgresProcess({ dataDir }), startEmbeddedPostgresProcess({ dataDir })];
      const starts = await Promise.allSettled(services.map((service) => service.ready));
      stranger?.kill('SIGKILL');
      const [owner, ...more] = services.filter((_service, index) => starts[index]?.status === 'fulfilled');
      const logs = services.flatMap(({ log }) => log).join('\n');
      assert.ok(owner !== undefined && more.length === 0, logs);
      assert.match(logs, new RegExp(`is in use: .* belongs to process ${owner.child.pid}`));
      assert.equal(await owner.stop(), 0);
      await assertStarts();
    });
  }

  it('waits for processes of the dead server that still hold its memory', async () => {
    const service = startEmbeddedPostgresProcess({ dataDir });
    const { url } = await service.ready;
    const client = new Client({ connectionString: url });
    client.on('error', quiet);
    await client.connect();
    // Busy in the processor, a backend does not notice that its server is gone.
    const busy = client.query('select sum(sqrt(n)) from generate_series(1, 20000000) as n');
    busy.catch(quiet);
    await sleep(100);
    await service.kill();
    await killServer(cluster);
    await assertStarts();
    await client.end().catch(quiet);
  });

  it('starts a server again that dies under a running service', async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: quiet });
    const dead = await killServer(cluster);
    await until(async () => {
      const file = await readPostmasterFile(cluster);
      return file !== null && file.pid !== dead && file.status === 'ready';
    }, 'the server was not started again');
    const [row] = await query(server.url, 'select count(*)::integer as count from kept');
    assert.deepEqual(row, { count: acknowledged });
    await server.stop();
    assert.equal(await readPostmasterFile(cluster), null);
  });

  it('stops quietly when its server has died already', async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: quiet });
    const dead = killServer(cluster);
    await server.stop();
    await dead;
    await assertStarts();
  });

  it('makes the cluster anew when the first start was killed in the middle', async () => {
    const home = join(directory, 'half');
    await mkdir(home);
    const unfinished = async (): Promise<string[]> =>
      (await readdir(home)).filter((name) => name.startsWith('postgres.init-'));
    const service = startEmbeddedPostgresProcess({ dataDir: home });
    await until(async () => {
      const [name] = await unfinished();
      return name !== undefined && (await readdir(join(home, name)).catch(() => [])).length > 5;
    }, 'initdb did not begin');
    await service.kill();
    assert.equal((await unfinished()).length, 1);
    const server = await startEmbeddedPostgres({ dataDir: home, log: quiet });
    assert.deepEqual(await query(server.url, 'select 1 as one'), [{ one: 1 }]);
    assert.deepEqual(await unfinished(), []);
    await server.stop();
  });
});

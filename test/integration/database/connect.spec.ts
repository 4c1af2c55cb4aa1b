import assert from 'node:assert/strict';
import { connect, createServer } from 'node:net';
import type { Server } from 'node:net';
import { describe, it } from 'vitest';
import { inspect } from 'node:util';
import { connectDatabase, DatabaseConnectError, describeUrl } from '../../../src/database/connect.js';
import type { DatabaseSettings } from '../../../src/database/data-source.js';
import { socketPath } from '@longshore/embedded-postgres/socket-directory';
import { rows } from '../../../src/database/sql/sql.js';
import { freePort } from '../../support/programs/free-port.js';
import { databaseUrl } from '../../support/test-database.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const SECRET = 'hush%20hush%2F1';

function settings(url: string): DatabaseSettings {
  return { url, poolSize: 1, applicationName: 'spec of connect', entities: [], migrations: [] };
}

async function failure(url: string, timeoutMs: number): Promise<DatabaseConnectError> {
  const error: unknown = await connectDatabase(settings(url), { timeoutMs }).then(
    () => assert.fail('it connected'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof DatabaseConnectError, String(error));
  const shown = inspect(error, { depth: 9, showHidden: true });
  for (const spelling of [SECRET, decodeURIComponent(SECRET)]) assert.ok(!shown.includes(spelling), shown);
  return error;
}

describe('connectDatabase', () => {
  const database = useTestDatabase({ migrations: [], entities: [] });

  it('waits for a server that is not up yet', async () => {
    const port = await freePort();
    const target = new URL(database.url);
    const socketDirectory = target.searchParams.get('host');
    let proxy: Server | undefined;
    const reasons: string[] = [];
    const url = `postgres://${target.username}:${SECRET}@127.0.0.1:${port}${target.pathname}?sslmode=disable`;
    const dataSource = await connectDatabase(settings(url), {
      timeoutMs: 60_000,
      onRetry: (reason) => {
        reasons.push(reason);
        if (reasons.length !== 2) return;
        proxy = createServer((client) => {
          const server =
            socketDirectory === null
              ? connect(Number(target.port || 5432), target.hostname)
              : connect(socketPath(socketDirectory));
          client.pipe(server).pipe(client);
          client.on('error', () => server.destroy());
          server.on('error', () => client.destroy());
        }).listen(port, '127.0.0.1');
      },
    });
    assert.deepEqual(await rows(dataSource, 'select 1 as one'), [{ one: 1 }]);
    assert.ok(reasons.length >= 2);
    assert.match(reasons[0] ?? '', /ECONNREFUSED/);
    await dataSource.destroy();
    proxy?.close();
  });

  it('gives up at the deadline, naming the server but not the password', async () => {
    const port = await freePort();
    const error = await failure(`postgres://me:${SECRET}@127.0.0.1:${port}/db?password=${SECRET}`, 300);
    assert.equal(error.code, 'ECONNREFUSED');
    assert.match(
      error.message,
      new RegExp(
        `^Cannot connect to the database postgres://me@127.0.0.1:${port}/db within 0.3 s: .*ECONNREFUSED`,
      ),
    );
  });

  it('names a socket that is not there', async () => {
    const error = await failure('postgres://me@localhost/db?host=/nowhere/at/all', 100);
    assert.equal(error.code, 'ENOENT');
    assert.match(error.message, /\(host \/nowhere\/at\/all\) within/);
  });

  it('does not wait for what waiting cannot mend', async () => {
    const missing = await failure(databaseUrl(database.url, 'no_such_database'), 600_000);
    assert.equal(missing.code, '3D000');
    await failure(`postgres://me:${SECRET}@host:not-a-port/db`, 600_000);
  });
});

describe('describeUrl', () => {
  it('leaves out password and parameters', () => {
    assert.equal(
      describeUrl(`postgres://me:${SECRET}@db.example:5433/runs?password=${SECRET}`),
      'postgres://me@db.example:5433/runs',
    );
    assert.equal(describeUrl('postgres://db.example/runs'), 'postgres://db.example/runs');
    assert.equal(describeUrl(`postgres://me:${SECRET}@host:port/db`), '(its URL is malformed)');
  });
});

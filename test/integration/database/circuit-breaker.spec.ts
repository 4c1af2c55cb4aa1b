import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, beforeAll, beforeEach, describe, test, vi } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../../src/database/data-source.js';
import { DatabaseServers } from '../../../src/database/failover/database-servers.js';
import { CircuitBreaker } from '../../../src/database/failover/circuit-breaker.js';
import { readOptions } from '../../../src/database/failover/connection-options.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { DatabaseUnreachable, isDatabaseUnavailable } from '../../../src/database/failover/unavailable.js';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const TIMES = { suspectAfter: 200, probeTimeout: 300, probePause: 20 };

/** The error of work that must fail because the database is unreachable, and its duration in milliseconds. */
async function failing(work: Promise<unknown>): Promise<unknown> {
  const error: unknown = await work.then(
    () => assert.fail('expected an error'),
    (reason: unknown) => reason,
  );
  assert.ok(isDatabaseUnavailable(error), String(error));
  return error;
}

async function connectWhenFree(url: string): Promise<Client> {
  for (let tries = 1; ; tries += 1) {
    const client = new Client({ connectionString: url });
    try {
      await client.connect();
      return client;
    } catch (error) {
      if (tries === 200) throw error;
      await sleep(10);
    }
  }
}

describe('the circuit breaker', () => {
  const database = useTestDatabase({ migrations: [], entities: [] });
  let proxy: DatabaseProxy;
  let source: DataSource;
  let breaker: CircuitBreaker;
  let events: string[];

  beforeAll(async () => {
    await execute(database.dataSource, 'create table notes (n integer)');
  });

  beforeEach(async () => {
    proxy = await DatabaseProxy.open(database.url);
    const options = dataSourceOptions({
      url: proxy.url,
      poolSize: 3,
      applicationName: 'breaker spec',
      entities: [],
      migrations: [],
    });
    breaker = new CircuitBreaker(new DatabaseServers(proxy.url, 'breaker spec'), TIMES);
    source = await new DataSource({
      ...options,
      extra: { ...options.extra, circuitBreaker: breaker },
    }).initialize();
    events = [];
    breaker.on('open', () => events.push('open')).on('close', () => events.push('close'));
  });
  afterEach(async () => {
    await proxy.allow();
    if (source.isInitialized) await source.destroy();
    await proxy.refuse();
  });

  const untilBack = async (): Promise<void> => {
    for (let tries = 0; breaker.error; tries += 1) {
      assert.ok(tries < 500, 'the breaker does not close');
      await sleep(10);
    }
  };

  test('opens for a refused connection, rejects new connections without asking it, and closes by itself', async () => {
    await rows(source, 'select 1');
    await proxy.refuse();
    await failing(rows(source, 'select 1'));
    assert.equal(await breaker.check(), false);
    const asked = vi.spyOn(breaker, 'begin');
    const refusals = await Promise.all(Array.from({ length: 50 }, () => failing(rows(source, 'select 1'))));
    for (const error of refusals) assert.ok(error instanceof DatabaseUnreachable, String(error));
    assert.equal(asked.mock.calls.length, 0);
    await proxy.allow();
    await untilBack();
    assert.equal((await rows(source, 'select 1')).length, 1);
    assert.deepEqual(events, ['open', 'close']);
  });

  test('opens for a silent database at the first statement, and rejects the next ones without asking it', async () => {
    await rows(source, 'select 1');
    proxy.silence();
    await failing(rows(source, 'select 1'));
    const asked = vi.spyOn(breaker, 'begin');
    assert.ok((await failing(rows(source, 'select 1'))) instanceof DatabaseUnreachable);
    assert.equal(asked.mock.calls.length, 0);
    await proxy.allow();
    await untilBack();
    assert.equal((await rows(source, 'select 1')).length, 1);
  });

  test('rejects requests that wait for a connection of a busy pool when it opens', async () => {
    const busy = Array.from({ length: 3 }, () => failing(rows(source, 'select pg_sleep(3600)')));
    const waiting = Array.from({ length: 8 }, () => failing(rows(source, 'select 1')));
    await sleep(100);
    proxy.silence();
    await Promise.all(busy);
    await Promise.all(waiting);
  });

  test('leaves a slow statement alone while the database answers', async () => {
    await rows(source, 'select pg_sleep(1)');
    assert.deepEqual(events, []);
  });

  test('stays closed when connections break and the server is reachable', async () => {
    for (let round = 0; round < 5; round += 1) {
      await rows(source, 'select 1');
      proxy.cut();
      await rows(source, 'select 1').catch((error: unknown) => assert.ok(isDatabaseUnavailable(error)));
      assert.equal(await breaker.check(), true);
    }
    assert.deepEqual(events, []);
  });

  test('counts a server without a free connection as reachable only with an open connection', async () => {
    const role = `breaker_${randomBytes(8).toString('hex')}`;
    await execute(database.dataSource, `create role ${role} login password '${role}' connection limit 1`);
    const url = new URL(proxy.url);
    url.username = role;
    url.password = role;
    const options = readOptions(source);
    const servers = new DatabaseServers(url.href, 'breaker spec');
    const limited = new CircuitBreaker(servers, TIMES);
    const extra: object = { ...options.extra, servers, circuitBreaker: limited };
    const scarce = await new DataSource({ ...options, url: url.href, extra }).initialize();
    let rival: Client | undefined;
    try {
      const busy = rows(scarce, 'select pg_sleep(0.2)');
      await failing(rows(scarce, 'select 1'));
      await busy;
      assert.equal(await limited.check(), true);
      await rows(scarce, 'select 1');
      proxy.cut();
      rival = await connectWhenFree(url.href);
      assert.equal(await limited.check(), false);
      assert.equal(limited.error, undefined);
    } finally {
      await rival?.end();
      await scarce.destroy();
      await execute(database.dataSource, `drop role ${role}`);
    }
  });

  test('rolls back a transaction whose connection it cuts', async () => {
    await failing(
      source.transaction(async (manager) => {
        await execute(manager, 'insert into notes values (1)');
        proxy.silence();
        await execute(manager, 'insert into notes values (2)');
      }),
    );
    await proxy.allow();
    await untilBack();
    await source.transaction((manager) => execute(manager, 'insert into notes values (3)'));
    assert.deepEqual(await rows(database.dataSource, 'select n from notes'), [{ n: 3 }]);
  });

  test('is shared by derived data sources', async () => {
    const derived = await new DataSource({ ...source.options }).initialize();
    await proxy.refuse();
    await failing(rows(source, 'select 1'));
    await breaker.check();
    assert.ok((await failing(rows(derived, 'select 1'))) instanceof DatabaseUnreachable);
    await derived.destroy();
  });

  test('stops with the last pool, also during an outage, and leaves no connection', async () => {
    assert.equal(await breaker.check(), true);
    await source.destroy();
    for (let tries = 0; proxy.connections > 0 && tries < 200; tries += 1) await sleep(10);
    assert.equal(proxy.connections, 0);
    await source.initialize();
    proxy.silence();
    await failing(rows(source, 'select 1'));
    await source.destroy();
  });
});

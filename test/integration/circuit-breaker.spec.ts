import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../src/database/data-source.js';
import { CircuitBreaker, type OutageChange } from '../../src/database/circuit-breaker.js';
import { execute, rows } from '../../src/database/sql.js';
import { DatabaseAway, isDatabaseUnavailable } from '../../src/database/unavailable.js';
import { DatabaseProxy } from '../support/database-proxy.js';
import { openTestDatabase, type TestDatabase } from '../support/test-database.js';

const TIMES = { suspectAfter: 200, answer: 300, pause: 20 };

/** How long something took that had to fail because the database is not there, in milliseconds, and the reason. */
async function failing(work: Promise<unknown>): Promise<{ readonly ms: number; readonly error: unknown }> {
  const started = performance.now();
  const error: unknown = await work.then(
    () => assert.fail('it was expected to fail'),
    (reason: unknown) => reason,
  );
  assert.ok(isDatabaseUnavailable(error), String(error));
  return { ms: performance.now() - started, error };
}

async function connectedAsSoonAsThereIsRoom(url: string): Promise<Client> {
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

describe('the outage gate', () => {
  let database: TestDatabase;
  let proxy: DatabaseProxy;
  let source: DataSource;
  let gate: CircuitBreaker;
  let changes: OutageChange[];

  before(async () => {
    database = await openTestDatabase({ migrations: [], entities: [] });
    await execute(database.dataSource, 'create table notes (n integer)');
  });
  after(() => database.close());

  beforeEach(async () => {
    proxy = await DatabaseProxy.open(database.url);
    const options = dataSourceOptions({
      url: proxy.url,
      poolSize: 3,
      applicationName: 'spec of the gate',
      entities: [],
      migrations: [],
    });
    if (options.type !== 'postgres') throw new TypeError('not PostgreSQL');
    gate = new CircuitBreaker(proxy.url, 'spec of the gate', TIMES);
    source = await new DataSource({ ...options, extra: { ...options.extra, gate } }).initialize();
    changes = [];
    gate.onChange = (change) => void changes.push(change);
  });
  afterEach(async () => {
    await proxy.allow();
    if (source.isInitialized) await source.destroy();
    await proxy.refuse();
  });

  const untilBack = async (): Promise<void> => {
    for (let tries = 0; gate.away; tries += 1) {
      assert.ok(tries < 500, 'the gate does not open again');
      await sleep(10);
    }
  };

  test('a refused connection closes it: everybody is refused at once, nobody else knocks, and it opens by itself', async () => {
    await rows(source, 'select 1');
    await proxy.refuse();
    await failing(rows(source, 'select 1'));
    assert.equal(await gate.check(), false);
    const refusals = await Promise.all(Array.from({ length: 50 }, () => failing(rows(source, 'select 1'))));
    for (const { ms, error } of refusals) {
      assert.ok(error instanceof DatabaseAway, String(error));
      assert.ok(ms < 100, `refused after ${ms} ms`);
    }
    await proxy.allow();
    await untilBack();
    assert.equal((await rows(source, 'select 1')).length, 1);
    assert.deepEqual(
      changes.map((change) => Object.keys(change)[0]),
      ['away', 'backAfterMs'],
    );
  });

  test('a silent database is found out by the first statement and refused to the following ones at once', async () => {
    await rows(source, 'select 1');
    proxy.silence();
    const first = await failing(rows(source, 'select 1'));
    assert.ok(first.ms >= TIMES.suspectAfter && first.ms < 2_000, `it took ${first.ms} ms`);
    const next = await failing(rows(source, 'select 1'));
    assert.ok(next.error instanceof DatabaseAway && next.ms < 100, `the next one took ${next.ms} ms`);
    await proxy.allow();
    await untilBack();
    assert.equal((await rows(source, 'select 1')).length, 1);
  });

  test('whoever waits for a connection out of a busy pool is refused when the database turns out to be away', async () => {
    const busy = Array.from({ length: 3 }, () => failing(rows(source, 'select pg_sleep(10)')));
    const waiting = Array.from({ length: 8 }, () => failing(rows(source, 'select 1')));
    await sleep(100);
    proxy.silence();
    await Promise.all(busy);
    for (const { ms } of await Promise.all(waiting)) assert.ok(ms < 2_000, `it waited for ${ms} ms`);
  });

  test('a statement that takes long on a database that answers is left alone', async () => {
    await rows(source, 'select pg_sleep(1)');
    assert.deepEqual(changes, []);
  });

  test('connections that break while the server is there do not close it', async () => {
    for (let round = 0; round < 5; round += 1) {
      await rows(source, 'select 1');
      proxy.cut();
      await rows(source, 'select 1').catch((error: unknown) => assert.ok(isDatabaseUnavailable(error)));
      assert.equal(await gate.check(), true);
    }
    assert.deepEqual(changes, []);
  });

  test('a server without a connection to spare is there for those who have one, and for nobody else', async () => {
    const role = `gate_${randomBytes(8).toString('hex')}`;
    await execute(database.dataSource, `create role ${role} login password '${role}' connection limit 1`);
    const url = new URL(proxy.url);
    url.username = role;
    url.password = role;
    const { options } = source;
    if (options.type !== 'postgres') throw new TypeError('not PostgreSQL');
    const limited = new CircuitBreaker(url.href, 'spec of the gate', TIMES);
    const extra: object = { ...options.extra, gate: limited };
    const scarce = await new DataSource({ ...options, url: url.href, extra }).initialize();
    let rival: Client | undefined;
    try {
      const busy = rows(scarce, 'select pg_sleep(0.2)');
      await failing(rows(scarce, 'select 1'));
      await busy;
      assert.equal(await limited.check(), true);
      await rows(scarce, 'select 1');
      proxy.cut();
      rival = await connectedAsSoonAsThereIsRoom(url.href);
      assert.equal(await limited.check(), false);
      assert.equal(limited.away, undefined);
    } finally {
      await rival?.end();
      await scarce.destroy();
      await execute(database.dataSource, `drop role ${role}`);
    }
  });

  test('a transaction that was cut off wrote nothing', async () => {
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

  test('a data source derived from it shares what it knows', async () => {
    const derived = await new DataSource({ ...source.options }).initialize();
    await proxy.refuse();
    await failing(rows(source, 'select 1'));
    await gate.check();
    assert.ok((await failing(rows(derived, 'select 1'))).error instanceof DatabaseAway);
    await derived.destroy();
  });

  test('it is closed with the last pool, whatever the database does, and leaves no connection', async () => {
    assert.equal(await gate.check(), true);
    await source.destroy();
    for (let tries = 0; proxy.connections > 0 && tries < 200; tries += 1) await sleep(10);
    assert.equal(proxy.connections, 0);
    await source.initialize();
    proxy.silence();
    await failing(rows(source, 'select 1'));
    const started = performance.now();
    await source.destroy();
    assert.ok(performance.now() - started < 2_000);
  });
});

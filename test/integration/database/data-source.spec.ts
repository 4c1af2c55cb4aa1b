import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../../src/database/data-source.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { isDatabaseUnavailable } from '../../../src/database/failover/unavailable.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

describe('the data source', () => {
  const database = useTestDatabase({ migrations: [], entities: [] });
  const opened: DataSource[] = [];

  beforeAll(async () => {
    await execute(database.dataSource, 'create table notes (n integer)');
  });

  afterAll(async () => {
    await Promise.all(opened.map((source) => source.destroy()));
  });

  async function open(extra: object = {}, onConnectionLost?: (error: Error) => void): Promise<DataSource> {
    const options = dataSourceOptions({
      url: database.url,
      poolSize: 1,
      applicationName: 'spec of the data source',
      entities: [],
      migrations: [],
      ...(onConnectionLost === undefined ? {} : { onConnectionLost }),
    });
    const source = await new DataSource({ ...options, extra: { ...options.extra, ...extra } }).initialize();
    opened.push(source);
    return source;
  }

  it('bounds every wait on the server, and says who it is', async () => {
    const source = await open();
    const [settings] = await rows<Record<string, string>>(
      source,
      `select current_setting('statement_timeout') as statement, current_setting('application_name') as name,
        current_setting('idle_in_transaction_session_timeout') as idle`,
    );
    assert.deepEqual(settings, { statement: '15s', name: 'spec of the data source', idle: '1min' });
  });

  it('reads moments as Date and large integers as text', async () => {
    const [row] = await rows(
      await open(),
      `select timestamptz '2026-11-21 08:00:00.123+01' as t, 9223372036854775807 as big, count(*) as count from notes`,
    );
    assert.deepEqual(row, {
      t: new Date('2026-11-21T07:00:00.123Z'),
      big: '9223372036854775807',
      count: '0',
    });
  });

  it('survives the loss of an idle connection, tells of it, and connects again', async () => {
    const lost: Error[] = [];
    const source = await open({}, (error) => lost.push(error));
    const [own] = await rows<{ pid: number }>(source, 'select pg_backend_pid() as pid');
    await execute(database.dataSource, 'select pg_terminate_backend($1)', [own?.pid]);
    for (let tries = 0; lost.length === 0 && tries < 500; tries += 1) await sleep(10);
    assert.ok(isDatabaseUnavailable(lost[0]), lost[0]?.message);
    const [next] = await rows<{ pid: number }>(source, 'select pg_backend_pid() as pid');
    assert.notEqual(next?.pid, own?.pid);
  });

  it('survives the loss of a connection in the middle of a transaction', async () => {
    const source = await open();
    // At once: the driver has not heard of it. Later: it has, and TypeORM gave the connection up.
    for (const pause of [0, 100]) {
      const failed = source.transaction(async (manager) => {
        const [own] = await rows<{ pid: number }>(manager, 'select pg_backend_pid() as pid');
        await execute(database.dataSource, 'select pg_terminate_backend($1)', [own?.pid]);
        await sleep(pause);
        await execute(manager, 'insert into notes values (1)');
      });
      await assert.rejects(failed, (error) => isDatabaseUnavailable(error));
      assert.deepEqual(await rows(source, 'select n from notes'), []);
    }
  });

  it('tells that the database is away once it was closed itself', async () => {
    const source = await open();
    await source.destroy();
    opened.splice(opened.indexOf(source), 1);
    await assert.rejects(rows(source, 'select 1'), (error) => isDatabaseUnavailable(error));
  });

  it('drops a connection whose answer did not come, so that nobody writes into its open transaction', async () => {
    const source = await open({ query_timeout: 300 });
    const failed = source.transaction(async (manager) => {
      await execute(manager, 'insert into notes values (2)');
      await execute(manager, 'select pg_sleep(5)');
    });
    await assert.rejects(failed, (error) => isDatabaseUnavailable(error));
    // With one connection in the pool this would run behind the sleeping statement, inside the lost transaction.
    await source.transaction(async (manager) => {
      await execute(manager, 'insert into notes values (3)');
    });
    assert.deepEqual(await rows(database.dataSource, 'select n from notes'), [{ n: 3 }]);
  });

  it('does not wait for ever for a connection out of a busy pool', async () => {
    const source = await open({ connectionTimeoutMillis: 200 });
    await source.transaction(async (manager) => {
      await rows(manager, 'select 1');
      await assert.rejects(rows(source, 'select 1'), (error) => isDatabaseUnavailable(error));
    });
    assert.equal((await rows(source, 'select 1')).length, 1);
  });
});

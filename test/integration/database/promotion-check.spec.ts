import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { detectRestore } from '../../../src/database/failover/promotion-check.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { until } from '../../support/service-process.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const TOPIC = 'checked';

/** Sends until the answer is no 503. */
async function insist(send: TestApp['send'], path: string) {
  for (let tries = 0; ; tries += 1) {
    const answer = await send('GET', path);
    if (answer.status !== 503 || tries === 500) return answer;
    await sleep(20);
  }
}

describe('the check of new connections for a promotion', () => {
  let database: TestDatabase;
  let apps: TestApp[];

  beforeEach(async () => {
    database = await openTestDatabase();
    await detectRestore(database.dataSource);
    apps = [await startTestApp({ database }), await startTestApp({ database })];
  });
  afterEach(async () => {
    for (const app of apps) await app.close();
    await database.close();
  });

  const app = (n: number): TestApp => apps[n] ?? assert.fail();

  /** As if the database were on another timeline than the stored one. */
  const changeTimeline = () =>
    execute(database.dataSource, `update database_origin set marks = marks || '{"timeline": "77"}'`);

  /** Ends all connections but that of the test. */
  const cut = () =>
    execute(
      database.dataSource,
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
    );

  const epochs = () =>
    rows<{ number: number; token: string }>(database.dataSource, 'select number, token from feed_epochs');

  /** The cursors of the topic, from an application whose connections are new. */
  async function cursors(n: number): Promise<string[]> {
    const { status, body, text } = await insist(app(n).send, `/feed?topic=${TOPIC}`);
    assert.equal(status, 200, text);
    return body.events.map(({ cursor }: { cursor: string }) => cursor);
  }

  it('begins one epoch however many connections of several processes find it, and keeps every cursor', async () => {
    const run = await createRun(app(0).send, TOPIC);
    for (const msg of ['a', 'b']) assert.equal(await note(app(0).send, run, msg), 204);
    const before = await cursors(0);
    await changeTimeline();
    await cut();
    await Promise.all(Array.from({ length: 20 }, (_, n) => cursors(n % 2)));
    assert.deepEqual(
      (await epochs()).map(({ number }) => number),
      [1],
    );
    for (const n of [0, 1]) {
      const after = await cursors(n);
      assert.equal(after.length, 2);
      assert.notDeepEqual(after, before);
      for (const cursor of [...before, ...after]) {
        assert.equal((await app(n).send('GET', `/feed?topic=${TOPIC}&after=${cursor}`)).status, 200);
      }
    }
  });

  it('begins the epoch when a process was killed while it did', async () => {
    await changeTimeline();
    const holder = database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query('lock table feed_epochs in share mode');
    await holder.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
    );
    const waiting = () =>
      rows<{ pid: number }>(
        database.dataSource,
        `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and query like '%feed_epochs%'`,
      );
    const asked = insist(app(0).send, `/feed?topic=${TOPIC}`);
    await until(async () => (await waiting()).length > 0, 'a process begins the epoch');
    for (const { pid } of await waiting()) {
      await execute(database.dataSource, 'select pg_terminate_backend($1)', [pid]);
    }
    await holder.rollbackTransaction();
    await holder.release();
    assert.equal((await asked).status, 200);
    assert.equal((await insist(app(1).send, `/feed?topic=${TOPIC}`)).status, 200);
    assert.deepEqual(
      (await epochs()).map(({ number }) => number),
      [1],
    );
  });

  it('refuses a connection to the primary that was replaced, and comes back', async () => {
    const run = await createRun(app(0).send, TOPIC);
    await changeTimeline();
    await cut();
    await cursors(0);
    const [epoch] = await epochs();
    assert.ok(epoch);
    // The previous database has no such epoch.
    await execute(database.dataSource, 'delete from feed_epochs');
    await cut();
    const refusal = () =>
      rows(app(0).dataSource, 'select 1').then(
        () => '',
        (error: unknown) => String(error),
      );
    await until(async () => /leads to another database/.test(await refusal()), 'connections are refused');
    assert.equal((await app(0).send('GET', `/runs/${run}`)).status, 503);
    await execute(database.dataSource, 'insert into feed_epochs values ($1, $2, now())', [
      epoch.number,
      epoch.token,
    ]);
    assert.equal((await insist(app(0).send, `/runs/${run}`)).status, 200);
  });
});

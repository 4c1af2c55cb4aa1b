import 'reflect-metadata';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../../src/database/connections/data-source.js';
import { Notifications, type NotificationTimes } from '../../../src/database/notifications.js';
import { createLog, type Log } from '../../../src/common/logging/logger.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const TIMES: NotificationTimes = { firstPause: 10, longestPause: 100, check: 60_000, answer: 5_000 };

/** Stands between a client and the database, until it falls silent on the connections it has. */
async function silentProxy(
  target: string,
): Promise<{ url: string; silence(): void; close(): Promise<void> }> {
  const url = new URL(target);
  const directory = url.searchParams.get('host');
  const port = Number(url.port || 5432);
  const pairs: [Socket, Socket][] = [];
  const server = createServer((client) => {
    const upstream =
      directory === null
        ? connect({ host: url.hostname, port })
        : connect({ path: `${directory}/.s.PGSQL.${port}` });
    pairs.push([client, upstream]);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('data', (bytes) => to.write(bytes));
      from.on('error', () => undefined);
      from.on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  url.host = `127.0.0.1:${address.port}`;
  url.search = '';
  return {
    url: url.toString(),
    silence: () => {
      for (const socket of pairs.flat()) socket.pause();
    },
    close: async () => {
      for (const socket of pairs.flat()) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('notifications of the database', () => {
  let database: TestDatabase;
  let logged: Record<string, unknown>[] = [];
  let log: Log;

  beforeAll(async () => {
    database = await openTestDatabase();
    log = createLog(
      { logLevel: 'debug' },
      { destination: { write: (line: string) => void logged.push(JSON.parse(line)) }, pretty: false },
    );
  });
  afterAll(() => database.close());

  const notify = (channel: string, payload: string): Promise<unknown> =>
    database.dataSource.query('select pg_notify($1, $2)', [channel, payload]);

  const listening = async (): Promise<number> => {
    const found = await database.dataSource.query<{ pid: number }[]>(
      `select pid from pg_stat_activity
        where datname = current_database() and query ilike 'listen %'`,
    );
    return found.length;
  };

  /** Collects what a subscription is told. */
  class Heard {
    readonly payloads: (string | null)[] = [];
    readonly take = (payload: string | null): void => void this.payloads.push(payload);

    async until(condition: (payloads: readonly (string | null)[]) => boolean): Promise<void> {
      const deadline = performance.now() + 120_000;
      while (!condition(this.payloads)) {
        assert.ok(performance.now() < deadline, JSON.stringify(this.payloads));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  }

  async function withNotifications(
    work: (notifications: Notifications) => Promise<void>,
    source: DataSource = database.dataSource,
    times = TIMES,
  ): Promise<void> {
    logged = [];
    const notifications = new Notifications(source, log, times);
    try {
      await work(notifications);
    } finally {
      await notifications.onApplicationShutdown();
    }
  }

  test('opens no connection before the first subscription, and closes its connections', async () => {
    await withNotifications(async (notifications) => {
      assert.equal(await listening(), 0);
      const heard = new Heard();
      notifications.subscribe('one', heard.take);
      notifications.subscribe('two', heard.take);
      await heard.until((payloads) => payloads.length === 2);
      assert.equal(await listening(), 1);
    });
    assert.equal(await listening(), 0);
  });

  test('reports first that it listens, then every payload of its channel in order', async () => {
    await withNotifications(async (notifications) => {
      const [one, two] = [new Heard(), new Heard()];
      notifications.subscribe('one', one.take);
      notifications.subscribe('two', two.take);
      await one.until((payloads) => payloads.length === 1);
      await two.until((payloads) => payloads.length === 1);
      for (const payload of ['a', '', 'ü b']) await notify('one', payload);
      await notify('two', 'x');
      await one.until((payloads) => payloads.length === 4);
      await two.until((payloads) => payloads.length === 2);
      assert.deepEqual(one.payloads, [null, 'a', '', 'ü b']);
      assert.deepEqual(two.payloads, [null, 'x']);
    });
  });

  test('reports to a later subscriber of a channel too that it listens; an ended subscription receives nothing', async () => {
    await withNotifications(async (notifications) => {
      const [early, late] = [new Heard(), new Heard()];
      const leave = notifications.subscribe('one', early.take);
      await early.until((payloads) => payloads.length === 1);
      notifications.subscribe('one', late.take);
      await late.until((payloads) => payloads.length === 1);
      leave();
      await notify('one', 'a');
      await late.until((payloads) => payloads.length === 2);
      assert.deepEqual(early.payloads, [null]);
    });
  });

  test('replaces a lost connection and reports on every channel that notifications may have been missed', async () => {
    await withNotifications(async (notifications) => {
      const [one, two] = [new Heard(), new Heard()];
      notifications.subscribe('one', one.take);
      notifications.subscribe('two', two.take);
      for (let round = 1; round <= 3; round += 1) {
        await one.until((payloads) => payloads.filter((payload) => payload === null).length === round);
        await two.until((payloads) => payloads.filter((payload) => payload === null).length === round);
        await notify('one', `round ${round}`);
        await one.until((payloads) => payloads.at(-1) === `round ${round}`);
        await database.dataSource.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()`,
        );
      }
      await one.until((payloads) => payloads.filter((payload) => payload === null).length === 4);
      const lines = logged.map(({ level, msg }) => `${String(level)}: ${String(msg)}`);
      assert.ok(lines.includes('warning: cannot listen to the database; trying again'), lines.join('\n'));
      assert.ok(lines.includes('info: listening to the database again'), lines.join('\n'));
    });
  });

  test('detects a silent connection and replaces it', async () => {
    const proxy = await silentProxy(database.url);
    const times = { ...TIMES, check: 20, answer: 200 };
    await withNotifications(
      async (notifications) => {
        const heard = new Heard();
        notifications.subscribe('one', heard.take);
        await heard.until((payloads) => payloads.length === 1);
        proxy.silence();
        await heard.until((payloads) => payloads.length === 2);
        await notify('one', 'a');
        await heard.until((payloads) => payloads.includes('a'));
      },
      new DataSource(
        dataSourceOptions({
          url: proxy.url,
          poolSize: 1,
          applicationName: 'silent',
          entities: [],
          migrations: [],
        }),
      ),
      times,
    );
    await proxy.close();
  });

  test('continues when a subscriber throws', async () => {
    await withNotifications(async (notifications) => {
      const heard = new Heard();
      notifications.subscribe('one', () => {
        throw new Error('oops');
      });
      notifications.subscribe('one', heard.take);
      await notify('one', 'too early or not');
      await heard.until((payloads) => payloads.includes(null));
      await notify('one', 'a');
      await heard.until((payloads) => payloads.includes('a'));
      assert.ok(logged.some(({ msg }) => msg === 'a listener to the database failed'));
    });
  });

  test('accepts plain channel names only', async () => {
    await withNotifications((notifications) => {
      for (const name of ['', 'A', 'a b', 'a;b', '1', 'x'.repeat(64)]) {
        assert.throws(() => notifications.subscribe(name, () => undefined), RangeError);
      }
      return Promise.resolve();
    });
  });

  test('can be closed at any time, also while connecting and without any connection', async () => {
    await withNotifications(() => Promise.resolve());
    await withNotifications((notifications) => {
      notifications.subscribe('one', () => undefined);
      return Promise.resolve();
    });
  });
});

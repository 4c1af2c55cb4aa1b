import 'reflect-metadata';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { beforeAll, describe, test } from 'vitest';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../../src/database/data-source.js';
import { v7 as uuidv7 } from 'uuid';
import { sendNotice, type CommitNotice } from '../../../src/database/notices/commit-notice.js';
import { CommitNotices, type NotificationTimes } from '../../../src/database/notices/commit-notices.js';
import { FeedRepository } from '../../../src/feed/feed.repository.js';
import { createLog, type Log } from '../../../src/common/logging/logger.js';
import { until } from '../../support/service-process.js';
import { countListening } from '../../support/postgres/listening-sessions.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

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

const losses = (names: readonly unknown[]): number => names.filter((name) => name === null).length;

const ids = (count: number, length: number, letter: string): string[] =>
  Array.from({ length: count }, (_, n) => String(n).padEnd(length, letter));

describe('commit notices', () => {
  const database = useTestDatabase();
  let logged: Record<string, unknown>[] = [];
  let log: Log;

  beforeAll(() => {
    log = createLog(
      { logLevel: 'debug' },
      { destination: { write: (line: string) => void logged.push(JSON.parse(line)) }, pretty: false },
    );
  });

  const send = (name: string): Promise<void> => sendNotice(database.dataSource, { changedWorkers: [name] });

  const listening = (): Promise<number> => countListening(database.dataSource);

  /** Collects what a subscription is told. */
  class Heard {
    readonly notices: (CommitNotice | null)[] = [];
    readonly take = (notice: CommitNotice | null): void => void this.notices.push(notice);

    get names(): (string | null | undefined)[] {
      return this.notices.map((notice) => notice && notice.changedWorkers?.[0]);
    }

    async until(condition: (names: readonly (string | null | undefined)[]) => boolean): Promise<void> {
      const deadline = performance.now() + 120_000;
      while (!condition(this.names)) {
        assert.ok(performance.now() < deadline, JSON.stringify(this.notices));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  }

  async function withNotices(
    work: (notices: CommitNotices) => Promise<void>,
    source: DataSource = database.dataSource,
    times = TIMES,
  ): Promise<void> {
    logged = [];
    const notices = new CommitNotices(source, log, times);
    try {
      await work(notices);
    } finally {
      await notices.onApplicationShutdown();
    }
  }

  test('open no connection before the first subscription, and close their connection', async () => {
    await withNotices(async (notices) => {
      assert.equal(await listening(), 0);
      const heard = new Heard();
      notices.subscribe(heard.take);
      notices.subscribe(heard.take);
      await heard.until((names) => names.length === 2);
      assert.equal(await listening(), 1);
    });
    assert.equal(await listening(), 0);
  });

  test('know whether another process serves, from its beginning to its end', async () => {
    const times = { ...TIMES, check: 20 };
    await withNotices(
      async (first) => {
        assert.equal(first.isAlone, false);
        await first.open();
        assert.equal(first.isAlone, true);
        await withNotices(async (second) => {
          await second.open();
          assert.equal(second.isAlone, false);
          await until(() => !first.isAlone, 'the first one knows of the second');
        });
        await until(() => first.isAlone, 'the first one knows that it is alone again');
      },
      database.dataSource,
      times,
    );
  });

  test('reach every subscriber in order, after the word that it listens', async () => {
    await withNotices(async (notices) => {
      const [one, two] = [new Heard(), new Heard()];
      notices.subscribe(one.take);
      notices.subscribe(two.take);
      await two.until((names) => names.length === 1);
      for (const name of ['a', '', 'ü b']) await send(name);
      for (const heard of [one, two]) {
        await heard.until((names) => names.length === 4);
        assert.deepEqual(heard.names, [null, 'a', '', 'ü b']);
      }
    });
  });

  test('tell a later subscriber too that it listens; an ended subscription receives nothing', async () => {
    await withNotices(async (notices) => {
      const [early, late] = [new Heard(), new Heard()];
      const leave = notices.subscribe(early.take);
      await early.until((names) => names.length === 1);
      notices.subscribe(late.take);
      await late.until((names) => names.length === 1);
      leave();
      await send('a');
      await late.until((names) => names.length === 2);
      assert.deepEqual(early.names, [null]);
    });
  });

  test('may have been missed after a lost connection, which is replaced, and every subscriber is told so', async () => {
    await withNotices(async (notices) => {
      const [one, two] = [new Heard(), new Heard()];
      notices.subscribe(one.take);
      notices.subscribe(two.take);
      for (let round = 1; round <= 3; round += 1) {
        await one.until((names) => losses(names) === round);
        await two.until((names) => losses(names) === round);
        await send(`round ${round}`);
        await one.until((names) => names.at(-1) === `round ${round}`);
        await database.dataSource.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()`,
        );
      }
      await one.until((names) => losses(names) === 4);
      const lines = logged.map(({ level, msg }) => `${String(level)}: ${String(msg)}`);
      assert.ok(lines.includes('warning: cannot listen to the database; trying again'), lines.join('\n'));
      assert.ok(lines.includes('info: listening to the database again'), lines.join('\n'));
    });
  });

  test('of a silent connection are missed until it is replaced', async () => {
    const proxy = await silentProxy(database.url);
    const times = { ...TIMES, check: 20, answer: 200 };
    await withNotices(
      async (notices) => {
        const heard = new Heard();
        notices.subscribe(heard.take);
        await heard.until((names) => names.length === 1);
        proxy.silence();
        await heard.until((names) => names.length === 2);
        await send('a');
        await heard.until((names) => names.includes('a'));
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

  test('reach the others when a subscriber throws, and one that cannot be read counts as lost', async () => {
    await withNotices(async (notices) => {
      const heard = new Heard();
      notices.subscribe(() => {
        throw new Error('oops');
      });
      notices.subscribe(heard.take);
      await heard.until((names) => names.includes(null));
      for (const text of ['soon', '7', ''])
        await database.dataSource.query(`select pg_notify('longshore_commit', $1)`, [text]);
      await send('a');
      await heard.until((names) => names.includes('a'));
      assert.deepEqual(heard.names, [null, null, null, null, 'a']);
      assert.ok(logged.some(({ msg }) => msg === 'a listener to the database failed'));
    });
  });

  test('of many and long names arrive whole, in several notifications', async () => {
    const topics = ids(300, 4, 'x').map((id) => id + '\u{1f600}'.repeat(125));
    const notice = {
      queue: { plain: 1 },
      runs: ids(400, 12, 'r'),
      freedWorkers: ids(200, 128, 'f'),
      slotWorkers: ids(3, 128, 's'),
    };
    await withNotices(async (notices) => {
      const heard = new Heard();
      notices.subscribe(heard.take);
      await heard.until((names) => names.length === 1);
      for (const named of [topics, topics.slice(0, 1), []]) {
        heard.notices.splice(0);
        const entries = named.map((topic) => ({
          topic,
          runId: uuidv7(),
          eventIndex: 0,
          recordedAt: new Date(),
        }));
        if (entries.length === 0) await sendNotice(database.dataSource, notice);
        else
          await new FeedRepository({ feedEnabled: true }).append(
            database.dataSource.manager,
            entries,
            notice,
          );
        await send('last');
        await heard.until((names) => names.at(-1) === 'last');
        const got = heard.notices.slice(0, -1).map((each) => each ?? {});
        const names = (part: 'runs' | 'freedWorkers' | 'slotWorkers') =>
          got.flatMap((each) => each[part] ?? []);
        assert.deepEqual(
          got.flatMap(({ queue }) => queue ?? []),
          [notice.queue],
        );
        assert.deepEqual(names('runs').toSorted(), notice.runs.toSorted());
        assert.deepEqual(names('freedWorkers').toSorted(), notice.freedWorkers.toSorted());
        assert.deepEqual(names('slotWorkers'), notice.slotWorkers);
        const found = got.flatMap((each) => Object.keys(each.topics ?? {}));
        assert.deepEqual(found.toSorted(), named.toSorted());
      }
    });
  });

  test('can be closed at any time, also while connecting and without any connection', async () => {
    await withNotices(() => Promise.resolve());
    await withNotices((notices) => {
      notices.subscribe(() => undefined);
      return Promise.resolve();
    });
  });
});

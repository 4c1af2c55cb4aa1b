import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { prepareDatabase } from '../../../src/bootstrap/open-database.js';
import { createLog } from '../../../src/common/logging/logger.js';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { MIGRATIONS } from '../../../migrations/all.js';
import { installedPrograms } from '../../support/backup/installed-postgres.js';
import { ReplicatedPostgres } from '../../support/backup/replicated-postgres.js';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { createRun } from '../../support/app/feed-app.js';
import { until } from '../../support/service-process.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import type { TestDatabase } from '../../support/test-database.js';
import { skipFor } from '../../support/skip.js';

const TOPIC = 'promoted';

const programs = await installedPrograms();

/** A database that `startTestApp` can use. */
function databaseAt(url: string): Promise<TestDatabase> {
  const open = async (poolSize = 2) =>
    connectDatabase(
      { url, poolSize, applicationName: 'promotion', entities: ENTITIES, migrations: MIGRATIONS },
      { timeoutMs: 120_000 },
    );
  return open().then((dataSource) => ({ url, dataSource, open, close: () => dataSource.destroy() }));
}

/** Sends until the answer is no 503, which says when to try again. */
async function insist(send: TestApp['send'], method: string, path: string, body?: unknown) {
  for (const deadline = Date.now() + 120_000; ;) {
    const answer = await send(method, path, {
      ...(body !== undefined && { body }),
      headers: { Prefer: 'return=minimal' },
    });
    if (answer.status !== 503 || Date.now() > deadline) return answer;
    assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
    await sleep(50);
  }
}

const messagesOf = (stream: EventStreamReader) => stream.events.map(({ data }) => data.msg);

describe(
  'two processes that serve while their database fails over',
  skipFor(programs === undefined && 'no PostgreSQL of the system (.ci/install-test-tools.sh)'),
  () => {
    let postgres: ReplicatedPostgres;
    let database: TestDatabase;
    let apps: TestApp[] = [];

    beforeEach(async () => {
      postgres = await ReplicatedPostgres.start(programs ?? '');
      database = await databaseAt(postgres.url);
      await prepareDatabase(database.dataSource, createLog({ logLevel: 'error' }), { status: '' });
      apps = [];
      for (let n = 0; n < 2; n += 1) {
        apps.push(await startTestApp({ database, env: { SERVICE_WORKER_POOL: 'shared' } }));
      }
    });
    afterEach(async () => {
      for (const app of apps) await app.close();
      await database.close();
      await postgres.stop();
    });

    const app = (n: number): TestApp => apps[n] ?? assert.fail();

    async function append(n: number, run: string, ...messages: readonly string[]): Promise<void> {
      for (const msg of messages) {
        const answer = await insist(app(n).send, 'POST', `/runs/${run}/events`, { type: 'NOTE', msg });
        assert.equal(answer.status, 204, answer.text);
      }
    }

    async function read(n: number, after = '') {
      const answer = await insist(app(n).send, 'GET', `/feed?topic=${TOPIC}${after && `&after=${after}`}`);
      assert.equal(answer.status, 200, answer.text);
      const events: { cursor: string; msg: unknown }[] = answer.body.events;
      return { messages: events.map(({ msg }) => msg), cursors: events.map(({ cursor }) => cursor) };
    }

    it('refuses the cursors of lost events with 410, and skips and repeats nothing for any reader', async () => {
      const run = await createRun(app(0).send, TOPIC);
      await append(0, run, 'a', 'b', 'c');
      await postgres.catchUp();
      await postgres.stopReplication();
      await append(1, run, 'd', 'e');
      const { cursors } = await read(0);
      const [, , c = '', d = '', e = ''] = cursors;
      const streams = await Promise.all(
        apps.map(({ url }) => EventStreamReader.open(url, `/feed/stream?topic=${TOPIC}`)),
      );
      const kept = await EventStreamReader.open(app(0).url, `/feed/stream?topic=other`);
      await until(() => streams.every(({ events }) => events.length === 5), 'the streams have all');
      const waiting = app(1).send('GET', `/feed?topic=${TOPIC}&after=${e}&wait=30`);

      await postgres.killPrimary();
      await postgres.promote();
      // Both write at once, so both come to the new primary at once, and again past the lost positions.
      await Promise.all([append(0, run, 'f', 'g', 'h'), append(1, run, 'i', 'j', 'k')]);

      const polled = await waiting;
      assert.ok([410, 503].includes(polled.status), polled.text);
      const refusals = polled.status === 410 ? [polled] : [];
      for (const { send } of apps) {
        for (const lost of [d, e])
          refusals.push(await insist(send, 'GET', `/feed?topic=${TOPIC}&after=${lost}`));
      }
      const { messages } = await read(0, c);
      assert.deepEqual(
        messages.map(String).toSorted((left, right) => left.localeCompare(right)),
        ['f', 'g', 'h', 'i', 'j', 'k'],
      );
      for (const { status, body, text } of refusals) {
        assert.equal(status, 410, text);
        const next = /'([\w-]+)'$/.exec(body.detail)?.[1] ?? assert.fail(text);
        for (const n of [0, 1]) assert.deepEqual((await read(n, next)).messages, messages);
      }
      assert.deepEqual((await read(1, cursors[0])).messages, ['b', 'c', ...messages]);
      for (const stream of streams) {
        await until(() => stream.ended !== undefined, 'the stream ends');
        assert.deepEqual(messagesOf(stream), ['a', 'b', 'c', 'd', 'e']);
      }
      assert.equal(kept.ended, undefined);
      kept.close();
      const timeline = await insist(app(0).send, 'GET', `/runs/${run}/events`);
      const notes: { msg: unknown }[] = timeline.body.events ?? timeline.body.data;
      assert.deepEqual(
        notes.map(({ msg }) => msg),
        ['a', 'b', 'c', ...messages],
      );
      assert.deepEqual(await postgres.query('select number from feed_epochs'), [{ number: 1 }]);
    });

    it('serves every reader on when nothing was lost', async () => {
      const run = await createRun(app(0).send, TOPIC);
      await append(0, run, 'a', 'b', 'c');
      const { cursors } = await read(0);
      const stream = await EventStreamReader.open(app(1).url, `/feed/stream?topic=${TOPIC}`);
      await until(() => stream.events.length === 3, 'the stream has all');
      const waiting = app(0).send('GET', `/feed?topic=${TOPIC}&after=${cursors[2]}&wait=30`);
      await postgres.catchUp();
      await postgres.killPrimary();
      await postgres.promote();
      await append(1, run, 'd');
      await append(0, run, 'e');
      await until(() => stream.events.length === 5, 'the stream goes on');
      assert.deepEqual(messagesOf(stream), ['a', 'b', 'c', 'd', 'e']);
      stream.close();
      const polled = await waiting;
      assert.ok([200, 503].includes(polled.status), polled.text);
      for (const n of [0, 1]) {
        assert.deepEqual((await read(n)).messages, ['a', 'b', 'c', 'd', 'e']);
        assert.deepEqual((await read(n, cursors[1])).messages, ['c', 'd', 'e']);
      }
    });

    it('follows to the promoted standby when its server turns read-only, with one epoch', async () => {
      const run = await createRun(app(0).send, TOPIC);
      await append(0, run, 'a');
      await append(1, run, 'b');
      await postgres.catchUp();
      await postgres.stopReplication();
      await postgres.makePrimaryReadOnly();
      await postgres.promote();
      await Promise.all([append(0, run, 'c'), append(1, run, 'd')]);
      const { messages, cursors } = await read(0);
      assert.deepEqual(messages.slice(0, 2), ['a', 'b']);
      assert.equal(messages.length, 4);
      assert.deepEqual((await read(1, cursors[1])).messages, messages.slice(2));
      assert.deepEqual(await postgres.query('select number from feed_epochs'), [{ number: 1 }]);
    });
  },
);

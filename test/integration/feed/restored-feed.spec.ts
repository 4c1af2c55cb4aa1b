import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, describe, it } from 'vitest';
import type { DataSource } from 'typeorm';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { detectRestore } from '../../../src/database/failover/promotion-check.js';
import { cursorsOf } from '../../../src/feed/feed-cursors.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { startTestApp, type Send, type TestApp } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const TOPIC = 'restored';

/** A database that is served, backed up and restored. A copy of a database counts as restored. */
class Deployment {
  #app: TestApp | undefined;
  #source: DataSource | undefined;

  constructor(readonly database: TestDatabase) {}

  /** Starts the service. @returns number of the feed epoch that it started, if any */
  async start(): Promise<number | undefined> {
    this.#source = await this.database.open(2);
    const restore = await detectRestore(this.#source);
    this.#app = await startTestApp({ database: this.database });
    return restore?.epoch;
  }

  get send(): Send {
    return this.#app?.send ?? assert.fail('not started');
  }

  async stop(): Promise<void> {
    await this.#app?.close();
    await this.#source?.destroy();
    this.#app = undefined;
    this.#source = undefined;
    if (this.database.dataSource.isInitialized) await this.database.dataSource.destroy();
  }

  /** A restored backup of what the database holds now. */
  async restore(): Promise<Deployment> {
    await this.stop();
    return open({ copyOf: this.database.url });
  }

  /** The events of the topic behind a cursor. */
  async read(after?: string) {
    const query = after === undefined ? '' : `&after=${after}`;
    const { status, body, text } = await this.send('GET', `/feed?topic=${TOPIC}${query}`);
    assert.equal(status, 200, text);
    const events: { cursor: string; msg: unknown }[] = body.events;
    return { messages: events.map(({ msg }) => msg), cursors: events.map(({ cursor }) => cursor) };
  }

  /** The cursor in the answer 410. */
  async cursorOfRefusal(after: string): Promise<string> {
    const { status, body } = await this.send('GET', `/feed?topic=${TOPIC}&after=${after}`);
    assert.equal(status, 410, JSON.stringify(body));
    return /restored from a backup .*'([\w-]+)'$/.exec(body.detail)?.[1] ?? assert.fail(body.detail);
  }

  /** Appends events to the topic. */
  async append(...messages: readonly string[]): Promise<void> {
    const run = await createRun(this.send, TOPIC);
    for (const message of messages) assert.equal(await note(this.send, run, message), 204);
  }
}

const deployments: Deployment[] = [];

async function open(options: { readonly copyOf?: string } = {}): Promise<Deployment> {
  const deployment = new Deployment(await openTestDatabase(options));
  deployments.push(deployment);
  return deployment;
}

afterEach(async () => {
  for (const deployment of deployments.splice(0)) {
    await deployment.stop();
    await deployment.database.close();
  }
});

/** A restored backup with events a, b and c, and cursors of the original, which later got d and e (`ahead`). */
async function setUp() {
  const first = await open();
  assert.equal(await first.start(), undefined);
  await first.append('a', 'b', 'c');
  const { cursors } = await first.read();
  const restored = await first.restore();
  // What happened between the backup and the loss.
  const lost = new Deployment(first.database);
  await lost.start();
  await lost.append('d', 'e');
  const all = (await lost.read()).cursors;
  assert.deepEqual(all.slice(0, 3), cursors);
  await lost.stop();
  return { restored, kept: cursors, ahead: all.slice(3) };
}

describe('a feed whose database is restored from a backup', () => {
  it('continues without a repeat for cursors that the backup contains', async () => {
    const { restored, kept } = await setUp();
    assert.equal(await restored.start(), 1);
    await restored.append('f');
    assert.deepEqual((await restored.read(kept[1])).messages, ['c', 'f']);
    const { messages, cursors } = await restored.read(kept[2]);
    assert.deepEqual(messages, ['f']);
    assert.deepEqual((await restored.read(cursors[0])).messages, []);
  });

  it('refuses a cursor behind the end of the backup, also after the feed has grown past it, and names one that skips nothing', async () => {
    const { restored, ahead } = await setUp();
    await restored.start();
    for (const cursor of ahead)
      assert.deepEqual((await restored.read(await restored.cursorOfRefusal(cursor))).messages, []);
    await restored.append('f', 'g', 'h', 'i');
    for (const cursor of ahead) {
      assert.deepEqual((await restored.read(await restored.cursorOfRefusal(cursor))).messages, [
        'f',
        'g',
        'h',
        'i',
      ]);
    }
    const { send } = restored;
    const stream = await send('GET', `/feed/stream?topic=${TOPIC}`, {
      headers: { 'Last-Event-ID': ahead[0] ?? '' },
    });
    assert.equal(stream.status, 410, stream.text);
  });

  it('names a cursor that works after retention has removed the end of the backup', async () => {
    const { restored, ahead } = await setUp();
    await restored.start();
    await restored.append('f', 'g', 'h');
    const { dataSource } = restored.database;
    await execute(dataSource, 'update feed_topics set first_position = 5');
    await execute(dataSource, 'delete from feed_entries where position < 5');
    const [cursor = ''] = ahead;
    assert.deepEqual((await restored.read(await restored.cursorOfRefusal(cursor))).messages, ['g', 'h']);
  });

  it('distinguishes the cursors of two restores', async () => {
    const { restored, kept, ahead } = await setUp();
    await restored.start();
    await restored.append('f');
    const of1 = (await restored.read(kept[2])).cursors[0] ?? assert.fail();
    const twice = await restored.restore();
    assert.equal(await twice.start(), 2);
    await twice.append('g');
    assert.deepEqual((await twice.read(kept[2])).messages, ['f', 'g']);
    assert.deepEqual((await twice.read(of1)).messages, ['g']);
    assert.deepEqual((await twice.read(await twice.cursorOfRefusal(ahead[1] ?? ''))).messages, ['f', 'g']);
    // A cursor of an unknown epoch: continue from the oldest event, so that nothing is skipped.
    const unknown = cursorsOf(TOPIC, 'AbCdEf12')(4);
    assert.deepEqual((await twice.read(await twice.cursorOfRefusal(unknown))).messages, [
      'a',
      'b',
      'c',
      'f',
      'g',
    ]);
  });

  it('starts no epoch over restarts and beside a process that serves, and refuses cursors of topics that the backup lacks', async () => {
    const first = await open();
    await first.start();
    await first.append('a');
    const { cursors } = await first.read();
    await first.stop();
    const again = new Deployment(first.database);
    assert.equal(await again.start(), undefined);
    assert.deepEqual((await again.read()).cursors, cursors);
    // The database cannot have been restored while a process serves.
    const source = await first.database.open(1);
    await execute(source, `update database_origin set marks = marks || '{"cluster": "another"}'`);
    assert.equal(await detectRestore(source), undefined);
    await source.destroy();
    await again.stop();
    const restarted = new Deployment(first.database);
    assert.equal(await restarted.start(), 1);
    const { status } = await restarted.send('GET', `/feed?topic=other&after=${cursorsOf('other', null)(1)}`);
    assert.equal(status, 410);
    assert.equal(
      (await restarted.send('GET', `/feed?topic=other&after=${cursorsOf('other', null)(0)}`)).status,
      200,
    );
    await restarted.stop();
  });

  it('starts one epoch however many processes start at once, and each of them sees it', async () => {
    const { restored } = await setUp();
    const sources = await Promise.all([1, 2, 3, 4].map(() => restored.database.open(2)));
    const results = await Promise.all(
      sources.map(async (source) => ({
        restore: await detectRestore(source),
        known: await rows(source, 'select number from feed_epochs'),
      })),
    );
    assert.deepEqual(
      results.flatMap(({ restore }) => restore ?? []),
      [{ epoch: 1, topics: 1 }],
    );
    for (const { known } of results) assert.deepEqual(known, [{ number: 1 }]);
  });

  it('is detected by a role that may read neither the cluster nor its files', async () => {
    const { restored } = await setUp();
    const { dataSource, url } = restored.database;
    const role = `restored_${randomBytes(4).toString('hex')}`;
    await execute(
      dataSource,
      'revoke execute on function pg_control_system(), pg_control_checkpoint() from public',
    );
    await execute(dataSource, `create role ${role} login in role pg_read_all_data, pg_write_all_data`);
    const asRole = new URL(url);
    asRole.username = role;
    const settings = {
      url: asRole.toString(),
      poolSize: 1,
      applicationName: role,
      entities: ENTITIES,
      migrations: [],
    };
    const source = await connectDatabase(settings, { timeoutMs: 120_000 });
    try {
      assert.equal((await detectRestore(source))?.epoch, 1);
      assert.equal(await detectRestore(source), undefined);
    } finally {
      await source.destroy();
      await execute(dataSource, `drop role ${role}`);
    }
  });
});

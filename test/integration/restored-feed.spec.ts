import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, describe, it } from 'node:test';
import type { DataSource } from 'typeorm';
import { connectDatabase } from '../../src/database/connect.js';
import { ENTITIES } from '../../src/database/entities/all.js';
import { execute, rows } from '../../src/database/sql.js';
import { detectRestore } from '../../src/feed/epochs/detect-restore.js';
import { encodeCursor } from '../../src/feed/feed-cursor.js';
import { createRun, note } from '../support/feed-app.js';
import { startTestApp, type Send, type TestApp } from '../support/test-app.js';
import { openTestDatabase, type TestDatabase } from '../support/test-database.js';

const TOPIC = 'restored';

/** A database that is served, backed up and restored; a copy of a database is to be told from it as a restored one is. */
class Deployment {
  #app: TestApp | undefined;
  #looking: DataSource | undefined;

  constructor(readonly database: TestDatabase) {}

  /** Starts the service. @returns number of the branch that it began, if it did */
  async start(): Promise<number | undefined> {
    this.#looking = await this.database.open(2);
    const noticed = await detectRestore(this.#looking);
    this.#app = await startTestApp({ database: this.database });
    return noticed?.branch;
  }

  get send(): Send {
    return this.#app?.send ?? assert.fail('not started');
  }

  async stop(): Promise<void> {
    await this.#app?.close();
    await this.#looking?.destroy();
    this.#app = undefined;
    this.#looking = undefined;
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
    return { said: events.map(({ msg }) => msg), cursors: events.map(({ cursor }) => cursor) };
  }

  /** The cursor to go on from that a refusal with 410 names. */
  async refusal(after: string): Promise<string> {
    const { status, body } = await this.send('GET', `/feed?topic=${TOPIC}&after=${after}`);
    assert.equal(status, 410, JSON.stringify(body));
    return /restored from a backup .*'([\w-]+)'$/.exec(body.detail)?.[1] ?? assert.fail(body.detail);
  }

  async say(...words: readonly string[]): Promise<void> {
    const run = await createRun(this.send, TOPIC);
    for (const word of words) assert.equal(await note(this.send, run, word), 204);
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

/** One whose topic holds a, b and c, and its restored backup, which ends before d and e; and cursors of the first. */
async function scene() {
  const first = await open();
  assert.equal(await first.start(), undefined);
  await first.say('a', 'b', 'c');
  const { cursors } = await first.read();
  const restored = await first.restore();
  // What happened between the backup and the loss.
  const lost = new Deployment(first.database);
  await lost.start();
  await lost.say('d', 'e');
  const all = (await lost.read()).cursors;
  assert.deepEqual(all.slice(0, 3), cursors);
  await lost.stop();
  return { restored, kept: cursors, ahead: all.slice(3) };
}

describe('a feed whose database is restored from a backup', () => {
  it('goes on for readers whose cursor the backup reaches, without a repeat', async () => {
    const { restored, kept } = await scene();
    assert.equal(await restored.start(), 1);
    await restored.say('f');
    assert.deepEqual((await restored.read(kept[1])).said, ['c', 'f']);
    const { said, cursors } = await restored.read(kept[2]);
    assert.deepEqual(said, ['f']);
    assert.deepEqual((await restored.read(cursors[0])).said, []);
  });

  it('refuses a cursor behind the end of the backup, also once it has grown past it, and names one that leaves nothing out', async () => {
    const { restored, ahead } = await scene();
    await restored.start();
    for (const cursor of ahead)
      assert.deepEqual((await restored.read(await restored.refusal(cursor))).said, []);
    await restored.say('f', 'g', 'h', 'i');
    for (const cursor of ahead) {
      assert.deepEqual((await restored.read(await restored.refusal(cursor))).said, ['f', 'g', 'h', 'i']);
    }
    const { send } = restored;
    const stream = await send('GET', `/feed/stream?topic=${TOPIC}`, {
      headers: { 'Last-Event-ID': ahead[0] ?? '' },
    });
    assert.equal(stream.status, 410, stream.text);
  });

  it('names a cursor that works when retention has come past the end of the backup', async () => {
    const { restored, ahead } = await scene();
    await restored.start();
    await restored.say('f', 'g', 'h');
    const { dataSource } = restored.database;
    await execute(dataSource, 'update feed_topics set first_position = 5');
    await execute(dataSource, 'delete from feed_entries where position < 5');
    const [cursor = ''] = ahead;
    assert.deepEqual((await restored.read(await restored.refusal(cursor))).said, ['g', 'h']);
  });

  it('tells the cursors of one restore from those of another', async () => {
    const { restored, kept, ahead } = await scene();
    await restored.start();
    await restored.say('f');
    const of1 = (await restored.read(kept[2])).cursors[0] ?? assert.fail();
    const twice = await restored.restore();
    assert.equal(await twice.start(), 2);
    await twice.say('g');
    assert.deepEqual((await twice.read(kept[2])).said, ['f', 'g']);
    assert.deepEqual((await twice.read(of1)).said, ['g']);
    assert.deepEqual((await twice.read(await twice.refusal(ahead[1] ?? ''))).said, ['f', 'g']);
    // A cursor of a branch that this database knows nothing of: from the oldest event, so nothing is left out.
    const unknown = encodeCursor(TOPIC, 4, 'AbCdEf12');
    assert.deepEqual((await twice.read(await twice.refusal(unknown))).said, ['a', 'b', 'c', 'f', 'g']);
  });

  it('stays as it is over restarts, beside a process that serves, and for topics that the backup does not know', async () => {
    const first = await open();
    await first.start();
    await first.say('a');
    const { cursors } = await first.read();
    await first.stop();
    const again = new Deployment(first.database);
    assert.equal(await again.start(), undefined);
    assert.deepEqual((await again.read()).cursors, cursors);
    // Marks that differ while a process serves are no restore: it would have had to end first.
    const looking = await first.database.open(1);
    await execute(looking, `update database_origin set marks = marks || '{"cluster": "another"}'`);
    assert.equal(await detectRestore(looking), undefined);
    await looking.destroy();
    await again.stop();
    const restarted = new Deployment(first.database);
    assert.equal(await restarted.start(), 1);
    const { status } = await restarted.send('GET', `/feed?topic=other&after=${encodeCursor('other', 1)}`);
    assert.equal(status, 410);
    assert.equal(
      (await restarted.send('GET', `/feed?topic=other&after=${encodeCursor('other', 0)}`)).status,
      200,
    );
    await restarted.stop();
  });

  it('begins one branch however many processes start at once, and none goes on before it has', async () => {
    const { restored } = await scene();
    const sources = await Promise.all([1, 2, 3, 4].map(() => restored.database.open(2)));
    const noticed = await Promise.all(
      sources.map(async (source) => ({
        restore: await detectRestore(source),
        known: await rows(source, 'select number from feed_branches'),
      })),
    );
    assert.deepEqual(
      noticed.flatMap(({ restore }) => restore ?? []),
      [{ branch: 1, topics: 1 }],
    );
    for (const { known } of noticed) assert.deepEqual(known, [{ number: 1 }]);
  });

  it('is noticed by a role that may look at neither the cluster nor its files', async () => {
    const { restored } = await scene();
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
    const source = await connectDatabase(settings, { deadlineMs: 10_000 });
    try {
      assert.equal((await detectRestore(source))?.branch, 1);
      assert.equal(await detectRestore(source), undefined);
    } finally {
      await source.destroy();
      await execute(dataSource, `drop role ${role}`);
    }
  });
});

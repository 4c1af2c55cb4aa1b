import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { MIGRATIONS } from '../../migrations/all.js';
import { connectDatabase } from '../../src/database/connect.js';
import { ENTITIES } from '../../src/database/entities/all.js';
import { migrate } from '../../src/database/migrate.js';
import { assertError } from '../support/answer-shapes.js';
import {
  startEmbeddedPostgresProcess,
  type EmbeddedPostgresProcess,
} from '../support/embedded-postgres-process.js';
import { RunSteps } from '../support/run-steps.js';
import { startTestApp, type TestAnswer, type TestApp } from '../support/test-app.js';
import { endServer, makeTestDirectory, THROW_AWAY } from '../support/test-cluster.js';

const OK = { status: 'ok', database: 'ok' };
const GONE = { status: 'unavailable', database: 'unreachable' };
const DETAIL = 'The database is not available';

/** A PostgreSQL that can be taken away and brought back under the service. */
class MovableDatabase {
  readonly #home: string;
  #holder: EmbeddedPostgresProcess | undefined;

  constructor(home: string) {
    this.#home = home;
  }

  /** Starts the server, or starts it again on the same address; answers its URL. */
  async bring(): Promise<string> {
    // fsync stays off; what was committed must survive the sudden ends of this test all the same.
    const serverOptions = { ...THROW_AWAY, synchronous_commit: 'on' };
    this.#holder = startEmbeddedPostgresProcess({ dataDir: join(this.#home, 'data'), serverOptions });
    return (await this.#holder.ready).url;
  }

  /** Ends the server at once, and whoever would start it again. */
  async take(): Promise<void> {
    await this.#holder?.kill();
    await endServer(join(this.#home, 'data', 'postgres'));
  }
}

describe('health while the database comes and goes', () => {
  let home: string;
  let postgres: MovableDatabase;
  let service: TestApp;
  let steps: RunSteps;

  before(async () => {
    home = await makeTestDirectory('cluster-');
    postgres = new MovableDatabase(home);
    const url = await postgres.bring();
    const opened: DataSource[] = [];
    const open = async (poolSize = 5): Promise<DataSource> => {
      const dataSource = await connectDatabase(
        { url, poolSize, applicationName: 'longshore test', entities: ENTITIES, migrations: MIGRATIONS },
        { deadlineMs: 30_000 },
      );
      opened.push(dataSource);
      return dataSource;
    };
    const dataSource = await open(2);
    await migrate(dataSource);
    const close = async (): Promise<void> => {
      await Promise.all(opened.filter((each) => each.isInitialized).map((each) => each.destroy()));
    };
    service = await startTestApp({
      env: { SERVICE_DB_POOL_SIZE: '10' },
      database: { url, dataSource, open, close },
    });
    steps = new RunSteps(service.send);
  });
  after(async () => {
    await service.close();
    await service.database.close();
    await postgres.take();
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  });

  const ask = (path: string): Promise<TestAnswer> => service.send('GET', path, { key: null });

  test('is ok with the database there, and needs no key', async () => {
    assertHealth(await ask('/health'), 200, OK);
    assertHealth(await ask('/health/live'), 200, { status: 'ok' });
  });

  test('tells within seconds that the database does not answer', async () => {
    const { dataSource } = service;
    const runners = Array.from({ length: 10 }, () => dataSource.createQueryRunner());
    await Promise.all(runners.map((runner) => runner.connect()));
    const started = performance.now();
    assertHealth(await ask('/health'), 503, GONE);
    assert.ok(performance.now() - started < 8000, 'it does not wait for a connection');
    await Promise.all(runners.map((runner) => runner.release()));
    assertHealth(await ask('/health'), 200, OK);
  });

  test('tells that the database is gone; other routes say 503 at once; back again, all is well without a restart', async () => {
    const run = await steps.running({ event_delivery: { topic: 't' } });
    await steps.note(run.id);
    const known = await steps.get(run.id);
    await postgres.take();

    const started = performance.now();
    for (const _ of [1, 2]) {
      const answer = await ask('/health');
      assertHealth(answer, 503, GONE);
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      assertHealth(await ask('/health/live'), 200, { status: 'ok' });
      const note = { type: 'NOTE', msg: '' };
      const refused = await Promise.all([
        service.send('POST', '/runs', { body: { image: 'i' } }),
        service.send('GET', `/runs/${run.id}`),
        service.send('GET', `/runs/${run.id}/events`),
        service.send('GET', `/runs/${run.id}/attempts`),
        service.send('POST', `/runs/${run.id}/events`, { body: note }),
        service.send('POST', `/runs/${run.id}/cancel`),
        service.send('POST', `/runs/${run.id}/retry`),
        service.send('POST', '/workers/w/claim'),
      ]);
      for (const each of refused) {
        assertError(each, 503, DETAIL);
        assert.match(each.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      }
      // What needs no database goes on.
      assert.equal((await steps.heartbeat()).is_active, true);
      assertError(await service.send('POST', '/runs', { body: {} }), 400, 'Request validation failed', [
        'image is required',
      ]);
    }
    assert.ok(performance.now() - started < 10_000, 'nobody waits for a database that is not there');

    await postgres.bring();
    for (let tries = 0; (await ask('/health')).status !== 200; tries += 1) {
      assert.ok(tries < 400, 'the service finds the database again');
      await sleep(25);
    }
    assertHealth(await ask('/health'), 200, OK);
    assert.deepEqual(await steps.get(run.id), known, 'a refused request has changed nothing');
    assert.equal((await steps.create()).state, 'PENDING');
    assert.equal((await steps.event(run.id, 'COMPLETED')).state, 'COMPLETED');
    assert.ok(!service.logged.some(({ level }) => level === 'error'), 'nobody has to act');
  });

  test('with the database gone many probes at once do not keep each other waiting', async () => {
    await postgres.take();
    const answers = await Promise.all(Array.from({ length: 200 }, () => ask('/health')));
    for (const answer of answers) assertHealth(answer, 503, GONE);
    await postgres.bring();
  });
});

/** Checks the answer of a health route: its status and its strings. */
function assertHealth(answer: TestAnswer, status: number, body: object): void {
  assert.deepEqual({ status: answer.status, body: answer.body }, { status, body });
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/);
}

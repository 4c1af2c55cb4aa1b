import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { MIGRATIONS } from '../../../migrations/all.js';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { migrate } from '../../../src/database/migrate.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { assertHealth } from '../../support/monitoring/health.js';
import { MovableDatabase } from '../../support/postgres/movable-database.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';

const GONE = { database: 'unreachable' };
const DETAIL = 'The database is not available';

describe('health while the database comes and goes', () => {
  let postgres: MovableDatabase;
  let service: TestApp;
  let steps: RunSteps;

  beforeAll(async () => {
    postgres = await MovableDatabase.create();
    const url = await postgres.bring();
    const opened: DataSource[] = [];
    const open = async (poolSize = 5): Promise<DataSource> => {
      const dataSource = await connectDatabase(
        { url, poolSize, applicationName: 'longshore test', entities: ENTITIES, migrations: MIGRATIONS },
        { timeoutMs: 120_000 },
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
  afterAll(async () => {
    await service.close();
    await service.database.close();
    await postgres.remove();
  });

  const ask = (path: string): Promise<TestAnswer> => service.send('GET', path, { key: null });

  test('is ok with the database there, and needs no key', async () => {
    assertHealth(await ask('/health'));
    assertAlive(await ask('/health/live'));
  });

  test('a pool of which every connection is in use is no outage: health has a connection of its own', async () => {
    const { dataSource } = service;
    const runners = Array.from({ length: 9 }, () => dataSource.createQueryRunner());
    await Promise.all(runners.map((runner) => runner.connect()));
    assertHealth(await ask('/health'));
    await Promise.all(runners.map((runner) => runner.release()));
  });

  test('tells that the database is gone; other routes say 503; back again, all is well without a restart', async () => {
    const run = await steps.running({ event_delivery: { topic: 't' } });
    await steps.note(run.id);
    const known = await steps.get(run.id);
    await postgres.take();

    for (const _ of [1, 2]) {
      const answer = await ask('/health');
      assertHealth(answer, GONE);
      assertAlive(await ask('/health/live'));
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

    await postgres.bring();
    while ((await ask('/health')).status !== 200) await sleep(25);
    assertHealth(await ask('/health'));
    assert.deepEqual(await steps.get(run.id), known, 'a refused request has changed nothing');
    assert.equal((await steps.create()).state, 'PENDING');
    assert.equal((await steps.event(run.id, 'COMPLETED')).state, 'COMPLETED');
    assert.ok(!service.logged.some(({ level }) => level === 'error'), 'nobody has to act');
  });

  test('with the database gone many probes at once do not keep each other waiting', async () => {
    await postgres.take();
    const answers = await Promise.all(Array.from({ length: 200 }, () => ask('/health')));
    for (const answer of answers) assertHealth(answer, GONE);
    await postgres.bring();
  });
});

function assertAlive({ status, body }: TestAnswer): void {
  assert.deepEqual({ status, body }, { status: 200, body: { status: 'ok' } });
}

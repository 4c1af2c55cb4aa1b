import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, onTestFinished, test, vi } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { readOptions } from '../../../src/database/failover/connection-options.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { assertHealth } from '../../support/monitoring/health.js';
import { atDepth } from '../../support/depth.js';
import { proxied } from '../../support/postgres/proxied-database.js';
import { startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** How often the database goes away and comes back. */
const ROUNDS = atDepth({ fast: 1, all: 2, soak: 4 });
const AWAY = 'The database is not available';
const CREATE = ['POST', '/runs', { body: { image: 'i' } }] as const;
const LIST = ['GET', '/runs'] as const;
const HEARTBEAT = [
  'POST',
  '/workers/heartbeat',
  { body: { worker_id: 'w', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] } },
] as const;

function assertRefused(answer: TestAnswer): void {
  assertError(answer, 503, AWAY);
  assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
}

async function start(): Promise<TestApp> {
  const service = await startTestApp({
    env: { SERVICE_DB_POOL_SIZE: '4', SERVICE_WORKER_POOL: 'shared' },
  });
  onTestFinished(() => service.close());
  return service;
}

/** Runs the action while a session of a test holds a table for itself. */
async function holding(service: TestApp, table: string, action: () => Promise<void>): Promise<void> {
  const runner = service.database.dataSource.createQueryRunner();
  await runner.startTransaction();
  await runner.query(`lock table ${table} in access exclusive mode`);
  try {
    await action();
  } finally {
    await runner.rollbackTransaction();
    await runner.release();
  }
}

// Each waits for its own service most of the time.
describe('without its database', { concurrent: true }, () => {
  describe('a service whose database falls silent', { concurrent: false }, () => {
    const database = useTestDatabase();
    let proxy: DatabaseProxy;
    let service: TestApp;

    beforeAll(async () => {
      proxy = await DatabaseProxy.open(database.url);
      service = await startTestApp({ database: proxied(database, proxy) });
    });
    afterAll(async () => {
      await proxy.allow();
      await service.close();
      await proxy.refuse();
    });

    test('says 503 to the first when it finds out and to the next without asking the database, and is well again after it', async () => {
      assert.equal((await service.send(...CREATE)).status, 201);
      for (let round = 0; round < ROUNDS; round += 1) {
        proxy.silence();
        const first = await Promise.all([service.send(...CREATE), service.send(...LIST)]);
        for (const each of first) assertRefused(each);
        const asked = vi.spyOn(readOptions(service.dataSource).extra.circuitBreaker, 'begin');
        const next = await Promise.all([
          ...Array.from({ length: 20 }, () => service.send(...CREATE)),
          ...Array.from({ length: 20 }, () => service.send(...LIST)),
        ]);
        for (const each of next) assertRefused(each);
        assert.equal(asked.mock.calls.length, 0);
        asked.mockRestore();
        assertHealth(await service.send('GET', '/health'), { database: 'unreachable' });
        await proxy.allow();
        while ((await service.send(...CREATE)).status !== 201) await sleep(25);
        assert.equal((await service.send(...LIST)).status, 200);
        assertHealth(await service.send('GET', '/health'));
      }
    });

    test('health finds out by itself', async () => {
      proxy.silence();
      assertHealth(await service.send('GET', '/health'), { database: 'unreachable' });
      await proxy.allow();
      while ((await service.send('GET', '/health')).status !== 200) await sleep(25);
    });
  });

  describe('a service of which a part is held up', { concurrent: true }, () => {
    test('with every connection for reads in use reads get 503, writes and heartbeats go on, and health is ok', async () => {
      const service = await start();
      await holding(service, 'definitions', async () => {
        const writing = new AbortController();
        // More than there are connections, for as long as the writes last: some hold them, the others wait for one.
        const reads = Array.from({ length: 12 }, async () => {
          const answers: TestAnswer[] = [];
          do answers.push(await service.send('GET', '/definitions'));
          while (!writing.signal.aborted);
          return answers;
        });
        await sleep(300);
        for (let n = 0; n < 50; n += 1) {
          assert.equal((await service.send(...CREATE)).status, 201);
          assert.equal((await service.send(...HEARTBEAT)).status, 200);
          await sleep(50);
        }
        assertHealth(await service.send('GET', '/health'));
        writing.abort();
        for (const each of (await Promise.all(reads)).flat()) assertRefused(each);
      });
      assert.equal((await service.send('GET', '/definitions')).status, 200);
    });

    test('while a commit takes too long who waits and who comes is refused, and health says that the journal is stuck', async () => {
      const service = await start();
      await holding(service, 'runs', async () => {
        // The first commit holds up the others; they are committed in one group and then one by one.
        const held = [service.send(...CREATE)];
        await sleep(100);
        held.push(...Array.from({ length: 4 }, () => service.send(...CREATE)));
        const stuck = { journal: 'stuck' };
        const health = async (): Promise<TestAnswer> => service.send('GET', '/health');
        for (let answer = await health(); ; answer = await health()) {
          if (answer.body.journal === 'ok') {
            await sleep(50);
            continue;
          }
          assertHealth(answer, stuck);
          break;
        }
        assertError(await service.send(...CREATE), 503, 'Too many requests are waiting');
        assert.equal((await service.send('POST', '/workers/w/heartbeat', { body: {} })).status < 500, true);
        for (const answer of await Promise.all(held)) assert.equal(answer.status, 503);
      });
      assert.equal((await service.send(...CREATE)).status, 201);
      assertHealth(await service.send('GET', '/health'));
    });
  });
});

import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, onTestFinished, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertError } from '../../support/http/answer-shapes.js';
import { DatabaseProxy } from '../../support/postgres/database-proxy.js';
import { assertHealth } from '../../support/monitoring/health.js';
import { atDepth } from '../../support/depth.js';
import { proxied } from '../../support/postgres/proxied-database.js';
import { startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

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

interface Timed {
  readonly answer: TestAnswer;
  readonly ms: number;
}

/** Sends a request and says how long the answer took. */
async function timed(service: TestApp, ...request: Parameters<TestApp['send']>): Promise<Timed> {
  const started = performance.now();
  const answer = await service.send(...request);
  return { answer, ms: performance.now() - started };
}

function assertRefused({ answer, ms }: Timed, limitMs: number): void {
  assertError(answer, 503, AWAY);
  assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
  assert.ok(ms < limitMs, `refused after ${Math.round(ms)} ms`);
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
    let database: TestDatabase;
    let proxy: DatabaseProxy;
    let service: TestApp;

    beforeAll(async () => {
      database = await openTestDatabase();
      proxy = await DatabaseProxy.open(database.url);
      service = await startTestApp({ database: proxied(database, proxy) });
    });
    afterAll(async () => {
      await proxy.allow();
      await service.close();
      await proxy.refuse();
      await database.close();
    });

    test('says 503 within three seconds to the first and at once to the next, and is well again soon after the database', async () => {
      assert.equal((await service.send(...CREATE)).status, 201);
      for (let round = 0; round < ROUNDS; round += 1) {
        proxy.silence();
        const first = await Promise.all([timed(service, ...CREATE), timed(service, ...LIST)]);
        for (const each of first) assertRefused(each, 3_200);
        const next = await Promise.all([
          ...Array.from({ length: 20 }, () => timed(service, ...CREATE)),
          ...Array.from({ length: 20 }, () => timed(service, ...LIST)),
        ]);
        for (const each of next) assertRefused(each, 1_000);
        const health = await timed(service, 'GET', '/health');
        assertHealth(health.answer, { database: 'unreachable' });
        assert.ok(health.ms < 1_000);
        await proxy.allow();
        const back = performance.now();
        while ((await service.send(...CREATE)).status !== 201) await sleep(25);
        assert.ok(performance.now() - back < 3_000, 'it takes long to find the database again');
        assert.equal((await service.send(...LIST)).status, 200);
        assertHealth(await service.send('GET', '/health'));
      }
    });

    test('health finds out by itself, within two seconds', async () => {
      proxy.silence();
      const { answer, ms } = await timed(service, 'GET', '/health');
      assertHealth(answer, { database: 'unreachable' });
      assert.ok(ms < 2_300, `it took ${ms} ms`);
      await proxy.allow();
      while ((await service.send('GET', '/health')).status !== 200) await sleep(25);
    });
  });

  describe('a service of which a part is held up', { concurrent: true }, () => {
    test('with every connection for reads in use reads get 503 in bounded time, writes and heartbeats go on, and health is ok', async () => {
      const service = await start();
      const started = performance.now();
      await holding(service, 'definitions', async () => {
        // More than there are connections, for as long as the writes last: some hold them, the others wait for one.
        const reads = Array.from({ length: 12 }, async () => {
          const answers: Timed[] = [];
          while (performance.now() - started < 5_000)
            answers.push(await timed(service, 'GET', '/definitions'));
          return answers;
        });
        await sleep(300);
        while (performance.now() - started < 5_000) {
          const write = await timed(service, ...CREATE);
          assert.equal(write.answer.status, 201);
          assert.ok(write.ms < 1_000, `a write took ${write.ms} ms`);
          const beat = await timed(service, ...HEARTBEAT);
          assert.equal(beat.answer.status, 200);
          assert.ok(beat.ms < 1_000, `a heartbeat took ${beat.ms} ms`);
          await sleep(50);
        }
        const health = await timed(service, 'GET', '/health');
        assertHealth(health.answer);
        assert.ok(health.ms < 1_000);
        for (const each of (await Promise.all(reads)).flat()) assertRefused(each, 7_500);
      });
      assert.equal((await service.send('GET', '/definitions')).status, 200);
    });

    test('while a commit takes too long who waits and who comes is refused, and health says that the journal is stuck', async () => {
      const service = await start();
      await holding(service, 'runs', async () => {
        // The first commit holds up the others; they are committed in one group and then one by one.
        const held = [timed(service, ...CREATE)];
        await sleep(100);
        held.push(...Array.from({ length: 4 }, () => timed(service, ...CREATE)));
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
        const late = await timed(service, ...CREATE);
        assertError(late.answer, 503, 'Too many requests are waiting');
        assert.ok(late.ms < 1_000, `it waited for ${late.ms} ms`);
        assert.equal((await service.send('POST', '/workers/w/heartbeat', { body: {} })).status < 500, true);
        for (const { answer } of await Promise.all(held)) assert.equal(answer.status, 503);
      });
      assert.equal((await service.send(...CREATE)).status, 201);
      assertHealth(await service.send('GET', '/health'));
    });
  });
});

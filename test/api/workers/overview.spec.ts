import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { startTestApp } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const GPUS = [
  { id: 0, vram_mb: 8000, tags: [] },
  { id: 1, vram_mb: 8000, tags: [] },
];

for (const pool of ['memory', 'shared']) {
  describe(`GET /overview, with the pool of workers in ${pool}`, () => {
    const service = useTestApp({
      env: { SERVICE_WORKER_POOL: pool },
    });

    const overview = async (): Promise<TestAnswerBody> => {
      const { status, body } = await service.send('GET', '/overview');
      assert.equal(status, 200);
      return body;
    };
    const heartbeat = (id: string): Promise<unknown> =>
      service.send('POST', '/workers/heartbeat', {
        body: { worker_id: id, resources: { cpu_cores: 8, ram_mb: 16000, gpus: GPUS }, tags: [] },
      });

    test('shows nothing where there is nothing', async () => {
      const body = await overview();
      assert.deepEqual(body.runs, {
        PENDING: 0,
        ASSIGNED: 0,
        RUNNING: 0,
        COMPLETED: 0,
        FAILED: 0,
        CANCELLED: 0,
      });
      assert.equal(body.oldest_pending_at, null);
      assert.deepEqual(body.workers, { active: 0, draining: 0, not_claiming: 0, away: 0, stale: 0 });
      const none = { total: 0, used: 0 };
      assert.deepEqual(body.capacity, { cpu: none, cpu_millis: none, ram_mb: none, vram_mb: none });
      assert.equal(body.minutes.length, 60);
    });

    test('shows what runs and workers do', async () => {
      const constraints = { cpu: 2, ram_mb: 1000, vram_mb: 500 };
      const create = async (priority: number): Promise<{ id: string; createdAt: string }> =>
        (await service.send('POST', '/runs', { body: { image: 'i', priority, constraints } })).body;
      const first = await create(-5);
      await create(1);
      await create(7);
      await heartbeat('w-1');
      await heartbeat('w-2');
      await service.send('POST', '/workers/w-2/drain');
      await service.send('POST', '/workers/w-1/claim');
      await service.send('POST', '/workers/w-2/claim');
      const body = await overview();
      assert.equal(body.runs.PENDING, 2);
      assert.equal(body.runs.ASSIGNED, 1);
      assert.equal(body.oldest_pending_at, first.createdAt, 'whatever its priority is');
      assert.deepEqual(body.workers, { active: 1, draining: 1, not_claiming: 0, away: 0, stale: 0 });
      assert.deepEqual(body.capacity, {
        cpu: { total: 8, used: 2 },
        cpu_millis: { total: 8000, used: 2000 },
        ram_mb: { total: 16000, used: 1000 },
        vram_mb: { total: 16000, used: 1000 },
      });
      assert.equal(total(body.minutes, 'created'), 3);
      await service.send('POST', `/runs/${first.id}/cancel`);
      const later = await overview();
      assert.equal(later.runs.CANCELLED, 1);
      assert.equal(total(later.minutes, 'cancelled'), 1);
      assert.notEqual(later.oldest_pending_at, first.createdAt);
    });
  });
}

test('GET /overview shows on one process what was done on another', async () => {
  const database = await openTestDatabase();
  const options = { database, env: { SERVICE_WORKER_POOL: 'shared' } };
  const services = await Promise.all([startTestApp(options), startTestApp(options)]);
  try {
    const [one, other] = services;
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        (n % 2 === 0 ? one : other).send('POST', '/runs', { body: { image: 'i' } }),
      ),
    );
    for (const { send } of services) assert.equal((await send('GET', '/overview')).body.runs.PENDING, 40);
  } finally {
    await Promise.all(services.map((service) => service.close()));
    await database.close();
  }
});

// oxlint-disable-next-line typescript/no-explicit-any -- an answer of any shape
type TestAnswerBody = any;

function total(minutes: readonly Record<string, number>[], what: string): number {
  return minutes.reduce((sum, minute) => sum + (minute[what] ?? 0), 0);
}

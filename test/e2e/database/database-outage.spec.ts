import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, type TestContext } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { AnswerRecord } from '../../support/http/answer-record.js';
import { assertHealth } from '../../support/monitoring/health.js';
import { MovableDatabase } from '../../support/postgres/movable-database.js';
import { assertNothingLost, RunLoad } from '../../support/runs/run-load.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';

const OUTAGE_MS = 10_000;

describe('a service under load whose database has trouble', () => {
  let postgres: MovableDatabase;
  let url: string;
  let service: ServiceProcess;

  // The clients of each test count from 1, so each has a database of its own.
  beforeEach(async () => {
    postgres = await MovableDatabase.create();
    url = await postgres.bring();
    service = await startService({
      env: { DATABASE_URL: url, SERVICE_API_KEYS: 'admin:outage-admin-key-of-the-tests' },
    });
  });
  afterEach(async () => {
    await service.stop();
    await postgres.remove();
  });

  /**
   * Puts the service under load, lets the trouble happen and come to its end, and checks that every answer but 2xx was a
   * documented 503, that nothing acknowledged was lost or doubled, and that the very same process is well again.
   */
  async function underLoad(context: TestContext, trouble: () => Promise<void>): Promise<void> {
    const record = new AnswerRecord();
    const load = new RunLoad(service.url, service.adminKey, 16, (send) => record.watch(send));
    try {
      await until(() => load.acknowledged > 200, 'the load has begun');
      await trouble();
      const back = performance.now();
      await until(() => record.hasSuccessAfter(back), 'it works again');
      const goal = load.acknowledged + 200;
      await until(() => load.acknowledged >= goal, 'it goes on working');
      await load.stop();
      const figures = record.figures(back);
      await context.annotate(
        JSON.stringify({ acknowledged: load.acknowledged, unknown: load.unanswered.size, ...figures }),
      );
      assert.ok(load.unanswered.size > 0, 'the load has not noticed anything');
    } finally {
      await load.stop().catch(() => undefined);
    }
    await assertNothingLost(load, url);
    assert.equal(service.child.exitCode, null, service.output);
    assertHealth(await senderTo(service.url)('GET', '/health'));
  }

  for (const mode of ['immediate', 'fast'] as const) {
    it(`refuses while the database is stopped for 10 s (${mode}), loses nothing and recovers by itself`, async (context) => {
      await underLoad(context, async () => {
        await postgres.take(mode);
        await sleep(OUTAGE_MS / 2);
        assertHealth(await senderTo(service.url)('GET', '/health'), { database: 'unreachable' });
        await sleep(OUTAGE_MS / 2);
        await postgres.bring();
      });
    });
  }

  it('refuses while the processes of the database stand still for 10 s, loses nothing and recovers by itself', async (context) => {
    await underLoad(context, async () => {
      await postgres.freeze();
      await sleep(OUTAGE_MS / 2);
      assertHealth(await senderTo(service.url)('GET', '/health'), { database: 'unreachable' });
      await sleep(OUTAGE_MS / 2);
      await postgres.thaw();
    });
  });

  it('loses nothing while every connection is terminated once a second for 20 s', async (context) => {
    await underLoad(context, async () => {
      const client = new Client({ connectionString: url });
      await client.connect();
      for (let second = 0; second < 20; second += 1) {
        const { rowCount } = await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where backend_type = 'client backend' and pid <> pg_backend_pid() and datname = current_database()`,
        );
        assert.ok((rowCount ?? 0) > 0, 'there was nothing to terminate');
        await sleep(1_000);
      }
      await client.end();
    });
  });
});

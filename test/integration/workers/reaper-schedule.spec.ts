import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { CommitNotices } from '../../../src/database/notices/commit-notices.js';
import { rows } from '../../../src/database/sql/sql.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import { Clock } from '../../../src/common/clock.js';
import { GracePeriod } from '../../../src/workers/reaper/grace-period.js';
import { WorkersModule } from '../../../src/workers/workers.module.js';
import { ReaperInstrumentation } from '../../../src/workers/reaper/reaper-instrumentation.js';
import { Reaper } from '../../../src/workers/reaper/reaper.js';
import { until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { senderTo, startTestApp, type TestApp } from '../../support/app/test-app.js';
import { startService } from '../../support/service-process.js';

/** Counts the passes of the service's reaper from now on, and how many were under way at once. */
function watchPasses({ app }: TestApp): { count: number; atOnce: number; mostAtOnce: number } {
  const seen = { count: 0, atOnce: 0, mostAtOnce: 0 };
  const reaper = app.get(Reaper);
  const runOnce = reaper.runOnce.bind(reaper);
  reaper.runOnce = async (stop) => {
    seen.count += 1;
    seen.atOnce += 1;
    seen.mostAtOnce = Math.max(seen.mostAtOnce, seen.atOnce);
    try {
      await sleep(30);
      return await runOnce(stop);
    } finally {
      seen.atOnce -= 1;
    }
  };
  return seen;
}

// Each test has a database of its own and waits most of the time.
describe('the reaper of a process', { concurrent: true }, () => {
  describe('the schedule of the reaper', () => {
    test('runs repeatedly while the server listens, never concurrently, and stops when it drains', async ({
      onTestFinished,
    }) => {
      const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '0.01' } });
      onTestFinished(() => service.close());
      const seen = watchPasses(service);
      await until(
        () => Promise.resolve(seen.count),
        (count) => count >= 5,
      );
      assert.equal(seen.mostAtOnce, 1);
      await service.app.get(Drain).begin();
      await until(
        () => Promise.resolve(seen.atOnce),
        (running) => running === 0,
      );
      const { count } = seen;
      await sleep(200);
      assert.equal(seen.count, count, 'workers cannot report here any more');
    });

    test('is waiting, then ok, and stalled without progress in /health', async ({ onTestFinished }) => {
      const env = { SERVICE_REAPER_INTERVAL: '1', SERVICE_WORKER_TIMEOUT: '2' };
      const service = await startTestApp({ env });
      onTestFinished(() => service.close());
      const word = async (): Promise<unknown> =>
        (await service.send('GET', '/health', { key: null })).body.reaper;
      assert.equal(await word(), 'waiting');
      await until(word, (said) => said === 'ok');
      const reaper = service.app.get(ReaperInstrumentation);
      reaper.sinceProgressMs = () => 31_000;
      assert.equal(reaper.health(), 'stalled');
      const answer = await service.send('GET', '/health', { key: null });
      assert.deepEqual(
        [answer.status, answer.body.status, answer.body.reaper],
        [503, 'unavailable', 'stalled'],
      );
      reaper.sinceProgressMs = () => 30_000;
      assert.equal(reaper.health(), 'ok');
    });

    test('restarts the grace period when database connections were lost between two passes', async ({
      onTestFinished,
    }) => {
      const service = await startTestApp({
        env: { SERVICE_REAPER_INTERVAL: '3600', SERVICE_WORKER_TIMEOUT: '60' },
      });
      onTestFinished(() => service.close());
      const grace = service.app.get(GracePeriod);
      const clock = service.app.select(WorkersModule).get(Clock, { strict: true });
      const before = clock.now();
      // Only a connection that was open can be lost.
      await service.app.get(CommitNotices).open();
      await sleep(200);
      assert.ok(grace.remainingMs() < 59_900, 'time goes on');
      await rows(
        service.database.dataSource,
        `select pg_terminate_backend(pid)
         from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
      );
      await until(
        () => Promise.resolve(grace.remainingMs() + clock.now()),
        (over) => over > before + 60_190,
      );
    });
  });

  describe('a service that was paused', () => {
    test('keeps the runs of workers that could not report meanwhile, and reclaims those of stale workers', async () => {
      const service = await startService({
        env: { SERVICE_WORKER_TIMEOUT: '3', SERVICE_REAPER_INTERVAL: '0.1' },
      });
      const steps = new RunSteps(senderTo(service.url, service.adminKey));
      const { id: kept } = await steps.running({}, 'well');
      const { id: lost } = await steps.running({}, 'dead');
      for (let i = 0; i < 7; i += 1) {
        await sleep(500);
        await Promise.all(['well', 'dead'].map((worker) => steps.heartbeat(worker)));
      }
      const { body: health } = await steps.send('GET', '/health');
      assert.equal(health.reaper, 'ok', 'without the pause it would judge');
      service.signal('SIGSTOP');
      await sleep(4_000);
      service.signal('SIGCONT');
      await sleep(1_000);
      await steps.heartbeat('well');
      const end = new AbortController();
      const beating = (async () => {
        while (!end.signal.aborted) {
          await steps.heartbeat('well');
          await sleep(500);
        }
      })();
      await until(
        () => steps.get(lost),
        ({ state }) => state === 'PENDING',
      );
      end.abort();
      await beating;
      const { state, current_attempt: attempt } = await steps.get(kept);
      assert.deepEqual([state, attempt], ['RUNNING', 1]);
      assert.equal(await service.stop(), 0);
    });
  });
});

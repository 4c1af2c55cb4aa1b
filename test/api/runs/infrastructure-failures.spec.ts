import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const LOST = { error_message: 'engine away', cause: 'infrastructure' };

for (const scheduler of ['direct', 'fit']) {
  describe(`after a failure of the infrastructure, with the strategy ${scheduler}`, () => {
    const service = useTestApp({
      env: {
        SERVICE_SCHEDULER: scheduler,
        SERVICE_WORKER_TIMEOUT: '600',
        SERVICE_MAX_RECLAIMS: '2',
        SERVICE_LOSS_PATIENCE: '1',
      },
    });
    const steps = new RunSteps(service.send);

    afterEach(async () => {
      // No run of the test comes back from its pause.
      await execute(service.dataSource, 'delete from run_timers');
      await execute(service.dataSource, 'delete from queue');
      for (const name of ['w', 'v', 'x']) await register(name, 1, true);
    });

    async function register(id: string, cores: number, draining = false): Promise<void> {
      await steps.heartbeat(id, { resources: { cpu_cores: cores, ram_mb: 1, gpus: [] } });
      await service.send('POST', `/workers/${id}/${draining ? 'drain' : 'resume'}`);
    }

    async function claimed(worker: string): Promise<string[]> {
      return (await steps.claim(worker)).map(({ id }) => id);
    }

    /** A run that failed on the worker by the infrastructure. */
    async function failedOn(worker: string, body: Readonly<Record<string, unknown>> = {}): Promise<any> {
      const { id } = await steps.create(body);
      assert.deepEqual(await claimed(worker), [id]);
      return steps.event(id, 'FAILED', LOST);
    }

    test('a machine that is unable uses up no loss of the run', async () => {
      await register('w', 4);
      const { id } = await steps.create();
      await steps.claimUntil(id);
      await execute(service.dataSource, `update runs set reclaims = 2 where id = $1`, [id]);
      const run = await steps.event(id, 'FAILED', { ...LOST, unable: 'gpus' });
      assert.deepEqual([run.state, run.current_attempt], ['PENDING', 2], 'one more loss would have ended it');
      assert.equal((await steps.attempts(id))[0].execution_summary.cause, 'infrastructure');
      assert.equal((await explain(id)).queue.avoided_worker, 'w');
    });

    test('another worker gets the run, before later ones; the same one does not', async () => {
      await register('w', 4);
      await register('v', 4);
      const { id } = await failedOn('w');
      assert.deepEqual(await claimed('w'), []);
      const later = await steps.create();
      assert.deepEqual(await claimed('w'), [later.id]);
      const last = await steps.create();
      const [first, ...others] = await claimed('v');
      assert.equal(first, id);
      // The strategy fit assigns all that fit.
      assert.deepEqual(others, scheduler === 'fit' ? [last.id] : []);
    });

    test('the same worker gets it ten seconds later, though no other one could take it before', async () => {
      await register('w', 4);
      const { id } = await failedOn('w', { constraints: { cpu: 4, ram_mb: 0, vram_mb: 0 } });
      assert.deepEqual(await claimed('w'), []);
      const waiting = waitingClaim('w');
      await untilWaiting(1);
      await endAvoidance(id);
      assert.deepEqual(
        (await waiting).map((op: any) => op.id),
        [id],
      );
    });

    test('a run that has lost more workers than allowed fails, and says by what', async () => {
      await register('w', 4);
      await register('v', 4);
      const { id } = await failedOn('w');
      await steps.claimUntil(id, 'v');
      await steps.event(id, 'FAILED', LOST);
      // It pauses after the second loss.
      const { summary, queue } = await explain(id);
      const why = "attempt 2 failed with worker 'v'; cause infrastructure: engine away";
      assert.equal(summary, `In back-off until ${queue.not_before}: ${why}.`);
      await execute(service.dataSource, `update runs set reclaims = 2 where id = $1`, [id]);
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
      await steps.claimUntil(id);
      const run = await steps.event(id, 'FAILED', { ...LOST, exit_code: 125 });
      assert.equal(run.state, 'FAILED');
      const { cause, exit_code: code, reclaims } = run.execution_summary;
      assert.deepEqual([cause, code, reclaims], ['infrastructure', 125, 3]);
    });

    test('a waiting claim of another worker is woken, past one of the worker that the run avoids', async () => {
      await register('w', 4);
      await register('v', 4);
      const { id } = await steps.create();
      assert.deepEqual(await claimed('w'), [id]);
      const avoided = waitingClaim('w');
      const other = waitingClaim('v');
      await untilWaiting(2);
      await steps.event(id, 'FAILED', LOST);
      assert.deepEqual(
        (await other).map((op: any) => op.id),
        [id],
      );
      const next = await steps.create();
      assert.deepEqual(
        (await avoided).map((op: any) => op.id),
        [next.id],
      );
    });

    test('an explanation names the worker that the run avoids, and until when', async () => {
      await register('w', 4);
      const { id } = await failedOn('w');
      const alone = await explain(id);
      assert.equal(alone.queue.avoided_worker, 'w');
      const end = new Date(Date.parse(alone.queue.queued_at) + 10_000).toISOString();
      const avoids = `it avoids worker 'w', where the attempt before failed by the infrastructure, until ${end}`;
      const position = 'Number 1 in the queue';
      assert.equal(alone.summary, `${position}; 1 worker could take it, but none of them now; ${avoids}.`);
      await register('v', 4);
      const { summary, workers } = await explain(id);
      assert.equal(summary, `${position}; 1 worker can take it as soon as it is their turn; ${avoids}.`);
      const {
        can_take_now: canTakeNow,
        could_ever: couldEver,
        obstacles,
      } = workers.find((one: any) => one.id === 'w');
      const avoided = { resource: 'avoided', needed: 1, free: 0, total: 1 };
      assert.deepEqual([canTakeNow, couldEver, obstacles], [false, true, [avoided]]);
      await endAvoidance(id);
      const after = await explain(id);
      assert.equal(after.queue.avoided_worker, null);
      assert.match(after.summary, /2 workers can take it as soon as it is their turn\.$/);
    });

    /** Lets ten seconds pass for the run, and waits until its avoidance is over. */
    async function endAvoidance(id: string): Promise<void> {
      await letTimePass(service.dataSource, [id], 10);
      await until(
        async () => (await explain(id)).queue?.avoided_worker ?? null,
        (worker) => worker === null,
      );
    }

    async function explain(id: string): Promise<any> {
      return bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    }

    async function waitingClaim(worker: string): Promise<any> {
      return (await service.send('POST', `/workers/${worker}/claim?wait=20`)).body.ops;
    }

    async function untilWaiting(count: number): Promise<void> {
      for (;;) {
        const { text } = await service.send('GET', '/metrics');
        if (text.includes(`longshore_waiting_claims ${count}\n`)) return;
      }
    }
  });
}

import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { QueueCleanupJob } from '../../../src/runs/queue/queue-cleanup.job.js';
import { until } from '../../support/app/passing-time.js';
import { checkKeys } from '../../support/runs/concurrency-keys.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const FORCED = { type: 'RETRIED', msg: '', payload: { force: true } };

describe('the slot of a concurrency key', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let keys = 0;

  afterEach(() => checkKeys(service.dataSource));

  /** A run in execution whose key lets no other run execute, and a run that waits for it. */
  async function scene(options: Readonly<Record<string, unknown>> = {}) {
    keys += 1;
    const worker = `w${keys}`;
    const body = { concurrency: { key: `k${keys}`, limit: 1 }, selector: [worker], ...options };
    const names = (...ids: readonly string[]) =>
      steps.sendHeartbeat(worker, {
        tags: [worker],
        running_ops: ids.map((id) => ({ id, image: 'image', inputs: {}, constraints: {} })),
      });
    await names();
    const { id: first } = await steps.create(body);
    assert.deepEqual(
      (await steps.claim(worker)).map(({ id }) => id),
      [first],
    );
    await steps.event(first, 'STARTED', { worker_id: worker });
    const { id: second } = await steps.create(body);
    const claimed = async (): Promise<string[]> => (await steps.claim(worker)).map(({ id }) => id);
    assert.deepEqual(await claimed(), []);
    return { worker, first, second, names, claimed };
  }

  /** Lets so many seconds pass for the slot of a run. */
  const pass = (runId: string, seconds: number): Promise<number> =>
    execute(
      service.dataSource,
      `update concurrency_slots
          set assigned_at = assigned_at - $2::interval, ends_at = ends_at - $2::interval
        where run_id = $1::uuid`,
      [runId, `${seconds} seconds`],
    );

  test('of a cancelled run is free when its worker no longer names the run', async () => {
    const { first, second, names, claimed } = await scene();
    assert.equal((await service.send('POST', `/runs/${first}/cancel`)).status, 200);
    await pass(first, 10);
    await names(first);
    assert.deepEqual(await claimed(), [], 'the container is stopping');
    const { body } = await service.send('GET', `/runs/${second}/explain`);
    assert.deepEqual(
      [
        body.concurrency.executing,
        body.concurrency.holders.map((holder: { run_id: string }) => holder.run_id),
      ],
      [1, [first]],
    );
    const ops = await until(
      async () => {
        await names();
        return claimed();
      },
      ({ length }) => length > 0,
    );
    assert.deepEqual(ops, [second]);
  });

  test('stays with a run that a heartbeat may not name yet, and one that says nothing of runs', async () => {
    const { worker, first, names, claimed } = await scene();
    await service.send('POST', `/runs/${first}/cancel`);
    await names();
    assert.deepEqual(await claimed(), [], 'assigned within the last five seconds');
    await pass(first, 10);
    await steps.sendHeartbeat(worker, { tags: [worker] });
    assert.deepEqual(await claimed(), []);
  });

  test('is free 30 seconds after the cancel, whatever the worker says', async () => {
    const { first, second, names, claimed } = await scene();
    await service.send('POST', `/runs/${first}/cancel`);
    const job = service.app.get(QueueCleanupJob);
    await pass(first, 29);
    await job.runOnce();
    await names(first);
    assert.deepEqual(await claimed(), []);
    await pass(first, 2);
    await job.runOnce();
    assert.deepEqual(await claimed(), [second]);
  });

  test('stays after every end of the attempt that its worker has not reported', async () => {
    for (const end of [
      (id: string) => service.send('PATCH', `/runs/${id}`, { body: { state: 'FAILED' } }),
      (id: string) => service.send('POST', `/runs/${id}/events`, { body: { type: 'CANCELLED', msg: '' } }),
      (id: string) => service.send('POST', `/runs/${id}/retry`),
    ]) {
      const { first, names, claimed } = await scene();
      assert.equal((await end(first)).status, 200);
      await names(first);
      assert.deepEqual(await claimed(), []);
    }
  });

  test('is free at once when the worker reports the end, or has not got the run', async () => {
    for (const event of [
      { type: 'COMPLETED', msg: '' },
      { type: 'FAILED', msg: '' },
      { type: 'CANCELLED', msg: '' },
    ]) {
      const { worker, first, second, claimed } = await scene();
      assert.equal((await steps.report(first, event, { worker, attempt: 1 })).status, 200);
      assert.deepEqual(await claimed(), [second], event.type);
    }
    const { worker, first, claimed } = await scene({ retry_policy: { max_attempts: 2 } });
    assert.equal((await steps.report(first, FORCED, { worker, attempt: 1 })).status, 200);
    assert.equal((await claimed()).length, 1, 'the retry, or the run behind it');
  });
});

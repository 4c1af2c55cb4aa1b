import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { eventCommand } from '../../support/runs/journal.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const DOUBLE = { ram_mb: { factor: 2, max: 3000 } };
const GROWING = {
  constraints: { ram_mb: 1024 },
  retry_policy: { max_attempts: 5, grow: DOUBLE },
};
const OOM = { cause: 'oom', exit_code: 137, error_message: 'killed for memory' };

/** What a worker has. */
const has = (ramMb: number): Record<string, unknown> => ({
  resources: { cpu_cores: 4, ram_mb: ramMb, gpus: [] },
});

describe('a run that grows', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit', SERVICE_WORKER_TIMEOUT: '3600' } });
  const steps = new RunSteps(service.send);

  afterEach(async () => {
    for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
      for (const { id } of (await service.send('GET', `/runs?limit=100&state=${state}`)).body.data)
        await service.send('POST', `/runs/${id}/cancel`);
    }
    for (const { id } of (await service.send('GET', '/workers')).body)
      await service.send('DELETE', `/workers/${id}`);
  });

  /** Fails the current attempt of a run, which the worker claims first. */
  async function fail(id: string, payload: object = OOM, worker = 'large'): Promise<any> {
    await steps.claimUntil(id, worker);
    return steps.event(id, 'FAILED', payload);
  }

  const amountsOf = async (id: string): Promise<number[]> =>
    (await steps.attempts(id)).map(({ constraints }) => constraints.ram_mb);

  test('shows the amounts of the attempt, and those of the attempts before with them', async () => {
    await steps.heartbeat('large', has(10_000));
    const { id } = await steps.create({
      ...GROWING,
      retry_policy: { ...GROWING.retry_policy, backoff_s: 600 },
    });
    const second = await fail(id);
    assert.deepEqual([second.state, second.constraints.ram_mb], ['PENDING', 2048]);
    assert.deepEqual(second.retry_policy, { max_attempts: 5, backoff_s: 600, grow: DOUBLE });
    assert.deepEqual(second.execution_summary, { asked_ram_mb: 1024 });
    const [waiting] = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport').demand.shapes;
    assert.deepEqual([waiting.ram_mb, waiting.waiting], [2048, 1]);
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
    const [op] = await steps.claim('large');
    assert.deepEqual([op.id, op.attempt, op.constraints], [id, 2, { ...second.constraints }]);
    const [worker] = bodyOf(await service.send('GET', '/workers'), 'Workers');
    assert.equal(worker.free.ram_mb, 10_000 - 2048);
    const third = await steps.event(id, 'FAILED', OOM);
    assert.deepEqual([third.constraints.ram_mb, third.execution_summary.asked_ram_mb], [3000, 1024]);
    assert.deepEqual(await amountsOf(id), [1024, 2048, 3000]);
    const page = await service.send('GET', `/runs/${id}/attempts?after=1&limit=1`);
    assert.equal(page.body[0].constraints.ram_mb, 2048);
    const [{ constraints, execution_summary: summary }] = (
      await service.send('GET', `/runs?limit=1&state=PENDING`)
    ).body.data;
    assert.deepEqual([constraints.ram_mb, summary.asked_ram_mb], [3000, 1024]);
  });

  test('goes on with a worker that has enough, and says so while there is none', async () => {
    const explain = async (id: string): Promise<any> =>
      bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    await steps.heartbeat('small', has(1024));
    const { id } = await steps.create(GROWING);
    await fail(id, OOM, 'small');
    assert.deepEqual(await steps.claim('small'), []);
    const { summary, workers } = await explain(id);
    assert.equal(
      summary,
      'Number 1 in the queue; no active worker has 2,048 MB of RAM: the run grew from 1,024 MB.',
    );
    assert.deepEqual(workers[0].obstacles, [{ resource: 'ram_mb', needed: 2048, free: 1024, total: 1024 }]);
    const { demand } = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
    assert.deepEqual([demand.shapes[0].ram_mb, demand.shapes[0].can_start_now], [2048, 0]);
    await steps.heartbeat('large', has(4096));
    assert.match((await explain(id)).summary, /^Number 1 in the queue; 1 worker can take it/);
    assert.deepEqual(await steps.claim('small'), []);
    assert.deepEqual((await steps.claim('large'))[0].constraints.ram_mb, 2048);
    const other = await steps.create({ constraints: { ram_mb: 2049 } });
    assert.deepEqual(await steps.claim('large'), [], 'the rest of the worker is too small');
    await steps.event(id, 'COMPLETED');
    assert.equal((await steps.claim('large'))[0].id, other.id);
  });

  test('that waits after another failure than those of its growth has the amounts that it had', async () => {
    await steps.heartbeat('large', has(10_000));
    const { id } = await steps.create(GROWING);
    await fail(id, { cause: 'exit', exit_code: 1 });
    await fail(id, { cause: 'infrastructure', exit_code: 137 });
    await steps.heartbeat('other', has(10_000));
    await fail(id, OOM, 'other');
    assert.deepEqual(await amountsOf(id), [1024, 1024, 1024, 2048]);
  });

  test('has more after a retry by hand of what failed for lack of memory, and as much after others', async () => {
    await steps.heartbeat('large', has(10_000));
    const { id } = await steps.create({ ...GROWING, retry_policy: { retry_on: ['exit'], grow: DOUBLE } });
    assert.equal((await fail(id)).state, 'FAILED');
    const retried = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
    assert.deepEqual([retried.state, retried.constraints.ram_mb], ['PENDING', 2048]);
    const again = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
    assert.equal(again.constraints.ram_mb, 2048);
    const { results } = (await service.send('POST', '/runs/batch/retry', { body: { ids: [id] } })).body;
    assert.ok(results[0].status < 300, JSON.stringify(results));
    assert.deepEqual(await amountsOf(id), [1024, 2048, 2048, 2048]);
    assert.equal((await fail(id)).state, 'FAILED');
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
    assert.equal((await steps.get(id)).constraints.ram_mb, 2048, 'a PATCH opens no attempt');
  });

  test('has the amounts in the queue also if it was there before the group that let it grow', async () => {
    await steps.heartbeat('small', has(1500));
    await steps.heartbeat('large', { ...has(4000), running_ops: [] });
    for (const key of [null, { key: 'k', limit: 1 }]) {
      const { id } = await steps.create({ ...GROWING, concurrency: key });
      const journal = service.app.get(RunJournal);
      await Promise.all([
        journal.change(id, { type: 'patch', keyName: 'admin', state: 'RUNNING' }),
        journal.change(id, eventCommand({ type: 'FAILED', msg: '', payload: OOM })),
      ]);
      assert.deepEqual((await steps.get(id)).constraints.ram_mb, 2048);
      assert.deepEqual(await steps.claim('small'), []);
      const ops = await until(
        async () => {
          // Programs of runs before have ended.
          await steps.heartbeat('large', { ...has(4000), running_ops: [] });
          return steps.claim('large');
        },
        ({ length }) => length > 0,
      );
      assert.equal(ops[0].id, id);
      await service.send('POST', `/runs/${id}/cancel`);
    }
  });

  test('of a definition takes what it gives itself, and must fit together with the rest', async () => {
    const runOf = (body: object): Promise<TestAnswer> =>
      service.send('POST', '/definitions/merged/runs', { body });
    const body = { id: 'merged', version: '1', image: 'i', ...GROWING };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    const other = { ram_mb: { factor: 1.5, max: 8000, on: ['timeout'] } };
    const replaced = bodyOf(await runOf({ retry_policy: { grow: other } }), 'OpRun', 201);
    assert.deepEqual(replaced.retry_policy, { max_attempts: 5, grow: other });
    const kept = bodyOf(
      await runOf({ constraints: { ram_mb: 3000 }, retry_policy: { grow: null } }),
      'OpRun',
      201,
    );
    assert.deepEqual([kept.retry_policy.grow, kept.constraints.ram_mb], [DOUBLE, 3000]);
    assertInvalid(await runOf({ constraints: { ram_mb: 3001 } }), [
      'retry_policy.grow.ram_mb.max must be at least constraints.ram_mb, 3001',
    ]);
    assertInvalid(await runOf({ constraints: { ram_mb: 0 } }), [
      'retry_policy.grow.ram_mb.factor needs constraints.ram_mb, which it multiplies, above 0',
    ]);
  });
});

import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { RunSteps, type Fence } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const HOLDER: Fence = { worker: 'w', attempt: 1 };
const PULL = 'Pulling the image registry.example/train:3';

describe('PREPARING', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const prepare = (id: string, fence: Fence = HOLDER): Promise<TestAnswer> =>
    steps.report(id, { type: 'PREPARING', msg: PULL }, fence);

  test('ends the time in which the run must start, so that a long pull does not fail it', async () => {
    const timed = { timeouts: { start_within_s: 60 } };
    const { id } = await steps.assigned(timed);
    await letTimePass(service.dataSource, [id], 50);
    bodyOf(await prepare(id), 'OpRun');
    const other = await steps.create(timed);
    await letTimePass(service.dataSource, [id, other.id], 3600);
    await until(
      () => steps.get(other.id),
      ({ state }) => state === 'FAILED',
    );
    const held = await steps.get(id);
    assert.equal(held.state, 'ASSIGNED');
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    assert.equal((await steps.get(id)).state, 'RUNNING');
  });

  test('is named by explain until the run starts', async () => {
    const { id } = await steps.assigned({ timeouts: { start_within_s: 60 } });
    await prepare(id);
    const [{ t }] = await steps.poll(id);
    const explained = bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    assert.deepEqual(explained.holder.preparing, { what: PULL, since: t });
    assert.equal(explained.deadline, null);
    assert.equal(explained.summary, `Assigned to worker 'w', which has prepared it since ${t}: ${PULL}.`);
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    const running = bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    assert.equal(running.holder.preparing, null);
  });

  test('is refused from a client, from another worker, and of a run that no worker holds', async () => {
    const { id } = await steps.assigned();
    assertError(
      await prepare(id, { worker: 'other', attempt: 1 }),
      409,
      `Run '${id}' is not assigned to worker 'other'`,
    );
    const { id: pending } = await steps.create();
    const unheld = await steps.report(pending, { type: 'PREPARING', msg: PULL }, {});
    assertError(unheld, 409, `Run '${pending}' is not assigned to a worker`);
    assert.deepEqual(await steps.poll(pending), []);
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { TestAnswer } from '../../support/app/test-app.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const REASON = 'The input was wrong: "ä€😀"\n2nd line';

describe('the reason of a cancellation', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const cancel = (id: string, body?: unknown): Promise<TestAnswer> =>
    service.send('POST', `/runs/${id}/cancel`, body === undefined ? {} : { body });

  test('is shown with the run and its attempt, and not with the event', async () => {
    for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
      const { id } = await steps.inState(state);
      const run = bodyOf(await cancel(id, { reason: REASON }), 'OpRun');
      assert.equal(run.state, 'CANCELLED');
      assert.equal(run.execution_summary.cancel_reason, REASON);
      const { type, msg, payload } = run.events.at(-1);
      assert.deepEqual({ type, msg, payload }, { type: 'CANCELLED', msg: 'Cancelled by user', payload: {} });
      assert.deepEqual(await steps.get(id), run);
      const [attempt] = await steps.attempts(id);
      assert.equal(attempt.execution_summary.cancel_reason, REASON);
    }
  });

  test('is absent without one: no body, an empty object, null', async () => {
    for (const body of [undefined, {}, { reason: null }]) {
      const { id } = await steps.create();
      const run = bodyOf(await cancel(id, body), 'OpRun');
      assert.ok(!('cancel_reason' in run.execution_summary));
    }
  });

  test('belongs to the attempt: a retry has none, and the attempt before keeps its own', async () => {
    const { id } = await steps.create();
    await cancel(id, { reason: REASON });
    const retried = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
    assert.ok(!('cancel_reason' in retried.execution_summary));
    const attempts = await steps.attempts(id);
    assert.deepEqual(
      attempts.map(({ execution_summary: { cancel_reason: reason } }) => reason),
      [REASON, undefined],
    );
  });

  test('is not shown of a run that a PATCH took out of CANCELLED', async () => {
    const { id } = await steps.create();
    await cancel(id, { reason: REASON });
    for (const state of ['COMPLETED', 'PENDING', 'CANCELLED']) {
      const { body } = await service.send('PATCH', `/runs/${id}`, { body: { state } });
      assert.ok(!('cancel_reason' in body.execution_summary), state);
    }
  });

  test('has 1 to 500 characters that can be stored', async () => {
    const { id } = await steps.create();
    for (const reason of ['', 'x'.repeat(501), 7, ['x']]) {
      assertInvalid(await cancel(id, { reason }), [
        'reason must be a string without control characters of 1 to 500 characters',
      ]);
    }
    for (const reason of ['a\0b', '\ud800']) assert.equal((await cancel(id, { reason })).status, 400);
    assertInvalid(await cancel(id, { why: 'x' }), ['why is not a known field']);
    assertInvalid(await cancel(id, []), ['the body must be a JSON object']);
    assert.equal((await cancel(id, '{"reason')).status, 400);
    assert.equal((await service.send('POST', `/runs/${id}/cancel?reason=x`)).status, 400);
    assert.equal((await steps.get(id)).state, 'PENDING');
    assert.equal((await cancel(id, { reason: 'x'.repeat(500) })).status, 200);
  });

  test('in a body that is not declared as JSON is refused, not dropped', async () => {
    const { id } = await steps.create();
    const answer = await fetch(`${service.url}/runs/${id}/cancel`, {
      method: 'POST',
      headers: { 'X-API-Key': 'test-client-key-of-the-tests' },
      body: '{"reason":"x"}',
    });
    assert.equal(answer.status, 415);
    assert.equal((await steps.get(id)).state, 'PENDING');
  });

  test('is the same for all runs of a bulk request, and part of what its key compares', async () => {
    const ids: string[] = [(await steps.create()).id, (await steps.create()).id];
    const bulk = (reason?: string): Promise<TestAnswer> =>
      service.send('POST', '/runs/batch/cancel', {
        body: { ids, ...(reason === undefined ? {} : { reason }) },
        headers: { 'Idempotency-Key': `cancel ${ids[0]}` },
      });
    assert.deepEqual((await bulk(REASON)).body.results, [{ status: 204 }, { status: 204 }]);
    for (const id of ids) assert.equal((await steps.get(id)).execution_summary.cancel_reason, REASON);
    const again = { status: 204, replayed: true };
    assert.deepEqual((await bulk(REASON)).body.results, [again, again]);
    for (const other of [undefined, 'another']) {
      const { results } = (await bulk(other)).body;
      assert.deepEqual(
        results.map(({ status }: { status: number }) => status),
        [409, 409],
      );
    }
  });

  test('is not needed by a worker that reports CANCELLED', async () => {
    const { id } = await steps.running();
    const run = await steps.event(id, 'CANCELLED', { reason: 'a payload of its own' });
    assert.equal(run.state, 'CANCELLED');
    assert.ok(!('cancel_reason' in run.execution_summary));
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const STATES = ['PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED'] as const;
const LIVE = ['PENDING', 'ASSIGNED', 'RUNNING'] as const;
const LOCKING = ['CANCELLED', 'COMPLETED', 'FAILED'] as const;

describe('section 3: states and transitions', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  describe('as specified', () => {
    for (const state of STATES) {
      test(`a run can be in state ${state}, and the list finds it there`, async () => {
        const { id } = await steps.inState(state);
        assert.equal((await steps.get(id)).state, state);
        const { body } = await service.send('GET', `/runs?state=${state}&limit=1`);
        assert.equal(body.data[0].id, id);
      });
    }

    test('a claim takes a pending run to ASSIGNED and gives it to the worker', async () => {
      await steps.emptyQueue();
      const { id } = await steps.create();
      await steps.heartbeat('claimer');
      const ops = await steps.claim('claimer');
      assert.deepEqual(
        ops.map((op) => op.id),
        [id],
      );
      assert.equal((await steps.get(id)).state, 'ASSIGNED');
    });

    for (const state of LIVE) {
      test(`POST cancel takes a run from ${state} to CANCELLED`, async () => {
        const { id } = await steps.inState(state);
        assert.equal(bodyOf(await service.send('POST', `/runs/${id}/cancel`), 'OpRun').state, 'CANCELLED');
      });

      test(`the event CANCELLED takes a run from ${state} to CANCELLED`, async () => {
        const { id } = await steps.inState(state);
        assert.equal((await steps.event(id, 'CANCELLED')).state, 'CANCELLED');
      });
    }

    for (const state of STATES) {
      test(`POST retry takes a run from ${state} to PENDING, with a new attempt and its record`, async () => {
        const { id, events } = await steps.inState(state);
        const run = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
        assert.deepEqual([run.state, run.current_attempt], ['PENDING', 2]);
        assert.equal((await steps.attempts(id)).length, 2);
        const { type, msg, payload } = run.events[events.length];
        assert.deepEqual(
          { type, msg, payload },
          { type: 'RETRIED', msg: 'Manual retry', payload: { force: true } },
        );
      });

      test(`PATCH takes a run from ${state} to any state`, async () => {
        for (const to of STATES) {
          const { id } = await steps.inState(state);
          const answer = await service.send('PATCH', `/runs/${id}`, { body: { state: to } });
          assert.equal(bodyOf(answer, 'OpRun').state, to);
        }
      });
    }

    for (const state of ['ASSIGNED', 'RUNNING']) {
      test(`FAILED takes a run from ${state} to PENDING while retries remain`, async () => {
        const { id } = await steps.inState(state, { retry_policy: { max_attempts: 2 } });
        const run = await steps.event(id, 'FAILED');
        assert.deepEqual([run.state, run.current_attempt], ['PENDING', 2]);
      });
    }

    for (const state of LOCKING) {
      test(`a run that is ${state} takes no new events`, async () => {
        const run = await steps.inState(state);
        for (const type of ['STARTED', 'COMPLETED', 'FAILED', 'CANCELLED', 'NOTE']) {
          const answer = await steps.report(run.id, { type, msg: '', payload: { worker_id: 'w' } });
          assertError(answer, 400, `Run is already in terminal state ${state}`);
        }
        assert.deepEqual(await steps.get(run.id), run);
      });
    }
  });

  describe('as settled', () => {
    for (const state of ['ASSIGNED', 'RUNNING']) {
      test(`STARTED takes a run from ${state} to RUNNING and notes when, COMPLETED and FAILED end it`, async () => {
        const { id } = await steps.inState(state);
        const started = await steps.event(id, 'STARTED', { worker_id: 'w' });
        assert.equal(started.state, 'RUNNING');
        assert.ok(started.execution_summary.started_at);
        const completed = await steps.event(id, 'COMPLETED', { outputs: { a: 1 } });
        assert.deepEqual(
          [completed.state, completed.progress, completed.outputs],
          ['COMPLETED', 100, { a: 1 }],
        );
        assert.equal(completed.execution_summary.finished_at, completed.updatedAt);
        const other = await steps.inState(state);
        const failed = await steps.event(other.id, 'FAILED', { error_message: 'why' });
        assert.deepEqual([failed.state, failed.execution_summary.error_message], ['FAILED', 'why']);
      });
    }

    test('STARTED, COMPLETED and FAILED are refused while no worker has the run', async () => {
      const run = await steps.create();
      for (const type of ['STARTED', 'COMPLETED', 'FAILED']) {
        const answer = await steps.report(run.id, { type, msg: '', payload: { worker_id: 'w' } });
        assertError(answer, 409, `Run '${run.id}' is not assigned to a worker`);
      }
      assert.deepEqual(await steps.get(run.id), run);
    });

    test('after the last failure the run is FAILED, and only a forced retry opens another attempt', async () => {
      const { id } = await steps.running();
      await steps.event(id, 'FAILED');
      const answer = await steps.report(id, { type: 'RETRIED', msg: '' });
      assertError(answer, 400, 'Run is already in terminal state FAILED');
      assert.equal((await steps.event(id, 'RETRIED', { force: true })).state, 'PENDING');
    });

    test('a retry that is not forced needs a failure to be left', async () => {
      const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
      assert.equal((await steps.event(id, 'RETRIED')).current_attempt, 2);
      const { id: failed } = await steps.running();
      await steps.event(failed, 'FAILED');
      await service.send('PATCH', `/runs/${failed}`, { body: { state: 'PENDING' } });
      const answer = await steps.report(failed, { type: 'RETRIED', msg: '', payload: { force: false } });
      assertError(answer, 400, `Run '${failed}' has no retries left`);
    });

    test('an automatic retry records FAILED and then RETRIED on the attempt that ended', async () => {
      const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
      const { events } = await steps.event(id, 'FAILED', { error_message: 'e' }, 'bad');
      const [failed, retried] = events.slice(-2);
      assert.deepEqual([failed.type, failed.attempt, retried.attempt], ['FAILED', 1, 1]);
      assert.deepEqual(
        [retried.type, retried.msg, retried.payload],
        ['RETRIED', 'Automatic retry', { force: false }],
      );
    });

    test('an attempt that a forced retry cuts short is CANCELLED, one that had ended keeps its state', async () => {
      const { id } = await steps.running();
      await service.send('POST', `/runs/${id}/retry`);
      assert.equal((await steps.attempts(id))[0].state, 'CANCELLED');
      const { id: done } = await steps.inState('COMPLETED');
      await service.send('POST', `/runs/${done}/retry`);
      assert.equal((await steps.attempts(done))[0].state, 'COMPLETED');
    });

    test('a new attempt starts without progress and worker and with the outputs of the creation', async () => {
      const { id } = await steps.running({ outputs: { template: 1 } });
      await steps.event(id, 'PROGRESS', undefined, 60);
      await steps.event(id, 'COMPLETED', { outputs: { own: 1 } });
      const run = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
      assert.deepEqual([run.progress, run.outputs, run.execution_summary], [0, { template: 1 }, {}]);
    });

    test('a manual retry starts a fresh budget of failures', async () => {
      const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
      await steps.event(id, 'FAILED');
      await service.send('POST', `/runs/${id}/retry`);
      await steps.claimUntil(id);
      assert.equal((await steps.event(id, 'FAILED')).state, 'PENDING');
      await steps.claimUntil(id);
      assert.equal((await steps.event(id, 'FAILED')).state, 'FAILED');
    });

    test('a run has a thousand attempts at most: a retry is refused, and a failure ends it', async () => {
      const { id } = await steps.create({ retry_policy: { max_attempts: 1000 } });
      const retry = { type: 'RETRIED', msg: '', payload: { force: true } };
      const headers = { Prefer: 'return=minimal' };
      for (let round = 0; round < 27; round += 1) {
        await Promise.all(
          Array.from({ length: 37 }, () =>
            service.send('POST', `/runs/${id}/events`, { body: retry, headers }),
          ),
        );
      }
      const run = await steps.get(id);
      assert.equal(run.current_attempt, 1000);
      const answer = await service.send('POST', `/runs/${id}/retry`);
      assertError(answer, 400, `Run '${id}' has reached the limit of 1000 attempts`);
      assert.deepEqual(await steps.get(id), run);
      await steps.claimUntil(id);
      assert.equal((await steps.event(id, 'FAILED')).state, 'FAILED');
    });

    test('the first worker to start a run that was patched into execution has it', async () => {
      const { id } = await steps.create();
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'ASSIGNED' } });
      const run = await steps.event(id, 'STARTED', { worker_id: 'first' });
      assert.equal(run.execution_summary.worker_id, 'first');
      const answer = await steps.report(id, { type: 'STARTED', msg: '', payload: { worker_id: 'second' } });
      assertError(answer, 409, `Run '${id}' is not assigned to worker 'second'`);
    });
  });
});

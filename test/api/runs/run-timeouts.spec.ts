import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertError } from '../../support/http/answer-shapes.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const START = { timeouts: { start_within_s: 3600 } };
const ATTEMPT = { timeouts: { attempt_s: 3600 } };
const NOT_STARTED = 'Not started within 3600 s';
const TOO_LONG = 'Attempt ran longer than 3600 s';
/** Long enough for the service to do what it has been told is due. */
const QUIET_MS = 150;

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('timeouts', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const pass = (id: string, seconds: number): Promise<void> => letTimePass(service.dataSource, [id], seconds);
  /** Lets time pass that must change nothing about the run. */
  const passInVain = async (id: string, seconds: number): Promise<void> => {
    const earlier = await steps.get(id);
    await pass(id, seconds);
    await sleep(QUIET_MS);
    const { state, events, current_attempt: attempt } = await steps.get(id);
    assert.deepEqual([state, events, attempt], [earlier.state, earlier.events, earlier.current_attempt]);
  };
  const untilState = (id: string, state: string): Promise<any> =>
    until(
      () => steps.get(id),
      (run) => run.state === state,
    );
  const timersOf = (id: string): Promise<unknown[]> =>
    service.dataSource.query('select due_at from run_timers where run_id = $1', [id]);

  describe('of the start', () => {
    test('fail a run that is not claimed in time', async () => {
      const { id } = await steps.create({ ...START, retry_policy: { max_attempts: 5 } });
      await pass(id, 3600);
      const run = await untilState(id, 'FAILED');
      const message = `${NOT_STARTED}: 1 worker can take it as soon as it is their turn`;
      assert.deepEqual(entriesOf(run), [failed(1, message)]);
      assert.equal(run.current_attempt, 1);
      assert.equal(run.execution_summary.error_message, message);
      assert.ok(run.execution_summary.finished_at);
      assert.deepEqual(await steps.claim(), []);
      assert.deepEqual(await timersOf(id), []);
    });

    test('fail a run whose worker does not start it in time, and reject a late STARTED', async () => {
      const { id } = await steps.assigned({ ...START, retry_policy: { max_attempts: 5 } });
      await pass(id, 3600);
      const why = "assigned to worker 'w', which is active but has not reported the run as running yet";
      assert.deepEqual(entriesOf(await untilState(id, 'FAILED')), [failed(1, `${NOT_STARTED}: ${why}`)]);
      const [attempt] = await steps.attempts(id);
      assert.deepEqual([attempt.state, attempt.execution_summary.worker_id], ['FAILED', 'w']);
      const late = await steps.report(
        id,
        { type: 'STARTED', msg: '', payload: { worker_id: 'w' } },
        { worker: 'w', attempt: 1 },
      );
      assertError(late, 400, 'Run is already in terminal state FAILED');
    });

    test('count from the end of the last run that the run waits for', async () => {
      const { id: parent } = await steps.create();
      const { id } = await steps.create({ ...START, depends_on: [{ run: parent, when: 'ended' }] });
      await passInVain(id, 3600);
      assert.deepEqual(await timersOf(id), []);
      await service.send('POST', `/runs/${parent}/cancel`);
      await new GroupSteps(service).untilReady(id);
      await passInVain(id, 3500);
      await pass(id, 100);
      await untilState(id, 'FAILED');
    });

    test('say why no worker could take the run', async () => {
      const { id } = await steps.create({ ...START, selector: ['x'] });
      const { summary } = (await service.send('GET', `/runs/${id}/explain`)).body;
      await pass(id, 3600);
      const { error_message: message } = (await untilState(id, 'FAILED')).execution_summary;
      assert.equal(message, `${NOT_STARTED}: no active worker has the tag x`);
      assert.match(summary, /; no active worker has the tag x\.$/);
    });

    test('appear on the feed as on the timeline', async () => {
      const { id } = await steps.create({ ...START, event_delivery: { topic: 'late' } });
      await pass(id, 3600);
      await untilState(id, 'FAILED');
      const { body } = await service.send('GET', '/feed?topic=late');
      assert.deepEqual(
        body.events.map(({ type, state, msg }: any) => [type, state, msg]),
        [['FAILED', 'FAILED', `${NOT_STARTED}: 1 worker can take it as soon as it is their turn`]],
      );
    });
  });

  describe('of an attempt', () => {
    test('fail the run when no retries are left, and reject the late worker', async () => {
      const { id } = await steps.running(ATTEMPT);
      await pass(id, 3600);
      const run = await untilState(id, 'FAILED');
      assert.deepEqual(entriesOf(run).slice(1), [failed(1, TOO_LONG)]);
      assert.equal(run.execution_summary.error_message, TOO_LONG);
      const late = await steps.report(id, { type: 'COMPLETED', msg: '' }, { worker: 'w', attempt: 1 });
      assertError(late, 400, 'Run is already in terminal state FAILED');
      assert.deepEqual(await steps.get(id), run);
    });

    test('open another attempt, which any worker may claim, while retries are left', async () => {
      const { id } = await steps.running({ ...ATTEMPT, retry_policy: { max_attempts: 2 } });
      await pass(id, 3600);
      const run = await untilState(id, 'PENDING');
      assert.deepEqual(entriesOf(run).slice(1), [failed(1, TOO_LONG), retried(1)]);
      const late = await steps.report(id, { type: 'COMPLETED', msg: '' }, { worker: 'w', attempt: 1 });
      assert.equal(late.status, 409);
      await steps.heartbeat('other');
      await steps.claimUntil(id, 'other');
      const [first, second] = await steps.attempts(id);
      assert.deepEqual([first.state, first.execution_summary.error_message], ['FAILED', TOO_LONG]);
      assert.deepEqual([second.state, second.execution_summary.worker_id], ['ASSIGNED', 'other']);
    });

    test('end with the attempt', async () => {
      for (const end of ['COMPLETED', 'FAILED', 'CANCELLED']) {
        const { id } = await steps.running(ATTEMPT);
        await steps.event(id, end);
        assert.deepEqual(await timersOf(id), [], end);
        await passInVain(id, 3600);
      }
      const { id } = await steps.running(ATTEMPT);
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'COMPLETED' } });
      assert.deepEqual(await timersOf(id), []);
    });
  });

  test('are applied without a request, and not before their time', async () => {
    const { id, createdAt } = await steps.create({ timeouts: { start_within_s: 1 } });
    const { events } = await untilState(id, 'FAILED');
    assert.ok(Date.parse(events[0].t) - Date.parse(createdAt) >= 1000);
  });
});

function entriesOf(run: any): unknown[] {
  return run.events.map(({ type, attempt, msg, payload }: any) => [type, attempt, msg, payload]);
}

function failed(attempt: number, message: string): unknown[] {
  return ['FAILED', attempt, message, { error_message: message, cause: 'timeout' }];
}

function retried(attempt: number): unknown[] {
  return ['RETRIED', attempt, 'Automatic retry', { force: false }];
}

import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { eventCommand } from '../../support/runs/journal.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';

const STATES = ['PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED'] as const;

describe('attempts of a run', () => {
  let service: TestApp;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startTestApp();
    steps = new RunSteps(service.send);
  });
  afterAll(() => service.close());

  test('begin with the first, which exists from the creation', async () => {
    const run = await steps.create({ inputs: { a: 1 }, outputs: { u: 2 }, constraints: { cpu: 3 } });
    const [attempt, ...others] = await steps.attempts(run.id);
    assert.deepEqual(others, []);
    assert.notEqual(attempt.id, run.id);
    assert.deepEqual(attempt, {
      id: attempt.id,
      op_run_id: run.id,
      attempt: 1,
      state: 'PENDING',
      progress: 0,
      events: [],
      inputs: { a: 1 },
      outputs: { u: 2 },
      execution_summary: {},
      constraints: { ram_mb: 0, vram_mb: 0, cpu: 3, gpu_id: null },
      started_at: null,
      finished_at: null,
    });
  });

  test('follow each other by themselves while the policy allows it, and then the run has failed', async () => {
    const { id } = await steps.create({ priority: 2 ** 31 - 1, retry_policy: { max_attempts: 3 } });
    await steps.heartbeat();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await steps.claimUntil(id);
      await steps.event(id, 'PROGRESS', undefined, attempt * 10);
      const run = await steps.event(id, 'FAILED', { error_message: `broke ${attempt}` }, 'no');
      assert.equal(run.state, attempt === 3 ? 'FAILED' : 'PENDING');
      assert.equal(run.current_attempt, Math.min(attempt + 1, 3));
      assert.equal(run.progress, attempt === 3 ? 30 : 0);
    }
    const run = await steps.get(id);
    const timeline = [
      [progress(0, 1), failed(1, 1), retried(2, 1)],
      [progress(3, 2), failed(4, 2), retried(5, 2)],
      [progress(6, 3), failed(7, 3)],
    ];
    assert.deepEqual(entries(run.events), timeline.flat());
    const attempts = await steps.attempts(id);
    assert.deepEqual(
      attempts.map(({ attempt, state, progress: percent, events }) => [
        attempt,
        state,
        percent,
        entries(events),
      ]),
      timeline.map((events, i) => [i + 1, 'FAILED', (i + 1) * 10, events]),
    );
    attempts.forEach(({ execution_summary: summary, finished_at: finished, events }, i) => {
      assert.equal(summary.error_message, `broke ${i + 1}`);
      assert.equal(finished, events.at(-1).t);
      assert.equal(summary.finished_at, finished);
    });
    assert.equal(new Set(attempts.map((attempt) => attempt.id)).size, 3);
  });

  for (const state of STATES) {
    test(`a forced retry of a run in state ${state} ends its attempt and opens the next`, async () => {
      const { id } = await steps.inState(state, { outputs: { u: 1 } });
      const [ended] = await steps.attempts(id);
      const run = bodyOf(await service.send('POST', `/runs/${id}/retry`), 'OpRun');
      assert.deepEqual(
        [run.state, run.current_attempt, run.progress, run.execution_summary, run.outputs],
        ['PENDING', 2, 0, {}, { u: 1 }],
      );
      const [entry] = entries(run.events.slice(-1));
      const index = ended.events.length;
      const payload = { force: true };
      assert.deepEqual(entry, { id: index, attempt: 1, type: 'RETRIED', msg: 'Manual retry', payload });
      const [first, second, ...others] = await steps.attempts(id);
      assert.deepEqual(others, []);
      const live = state === 'PENDING' || state === 'ASSIGNED' || state === 'RUNNING';
      assert.deepEqual(
        { ...first, finished_at: null, execution_summary: null, events: null },
        {
          ...ended,
          state: live ? 'CANCELLED' : state,
          finished_at: null,
          execution_summary: null,
          events: null,
        },
      );
      assert.equal(first.finished_at, live ? run.updatedAt : ended.finished_at);
      assert.deepEqual(first.events, run.events);
      assert.deepEqual([second.attempt, second.state, second.events], [2, 'PENDING', []]);
      assert.deepEqual([second.started_at, second.finished_at], [null, null]);
      await steps.claimUntil(id);
    });

    test(`the event RETRIED with force does the same in state ${state}`, async () => {
      const { id } = await steps.inState(state);
      const run = await steps.event(id, 'RETRIED', { force: true, by: 'me' }, 'by hand');
      assert.deepEqual([run.state, run.current_attempt], ['PENDING', 2]);
      const [entry] = entries(run.events.slice(-1));
      const payload = { force: true, by: 'me' };
      const index = run.events.length - 1;
      assert.deepEqual(entry, { id: index, attempt: 1, type: 'RETRIED', msg: 'by hand', payload });
    });
  }

  for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
    test(`a cancel in state ${state} ends the run, and a second one says so`, async () => {
      const { id, execution_summary: summary } = await steps.inState(state);
      const run = bodyOf(await service.send('POST', `/runs/${id}/cancel`), 'OpRun');
      assert.equal(run.state, 'CANCELLED');
      const [entry] = entries(run.events.slice(-1));
      const index = run.events.length - 1;
      assert.deepEqual(entry, {
        id: index,
        attempt: 1,
        type: 'CANCELLED',
        msg: 'Cancelled by user',
        payload: {},
      });
      const { finished_at: finished, duration_ms: _duration, ...rest } = run.execution_summary;
      assert.deepEqual([finished, rest], [run.updatedAt, summary]);
      const [attempt] = await steps.attempts(id);
      assert.deepEqual([attempt.state, attempt.finished_at], ['CANCELLED', finished]);
      const detail = 'Run is already in terminal state CANCELLED';
      assertError(await service.send('POST', `/runs/${id}/cancel`), 400, detail);
      assert.deepEqual(await steps.get(id), run);
    });
  }

  for (const state of ['COMPLETED', 'FAILED', 'CANCELLED']) {
    test(`a cancel of a run in state ${state} is refused and changes nothing`, async () => {
      const run = await steps.inState(state);
      const answer = await service.send('POST', `/runs/${run.id}/cancel`);
      assertError(answer, 400, `Run is already in terminal state ${state}`);
      assert.deepEqual(await steps.get(run.id), run);
    });
  }

  test('a cancelled run is handed to nobody', async () => {
    await steps.emptyQueue();
    const { id } = await steps.create();
    await service.send('POST', `/runs/${id}/cancel`);
    assert.deepEqual(await steps.claim(), []);
  });

  test('a polite retry is taken while failures are left, and ends the attempt as CANCELLED', async () => {
    for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
      const { id } = await steps.inState(state);
      const run = await steps.event(id, 'RETRIED');
      assert.deepEqual([run.state, run.current_attempt], ['PENDING', 2]);
      assert.deepEqual(
        (await steps.attempts(id)).map((attempt) => attempt.state),
        ['CANCELLED', 'PENDING'],
      );
    }
  });

  test('a polite retry is refused once the failures are used up, also after a PATCH', async () => {
    const { id } = await steps.inState('FAILED');
    const locked = await steps.report(id, { type: 'RETRIED', msg: '', payload: { force: false } });
    assertError(locked, 400, 'Run is already in terminal state FAILED');
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
    const answer = await steps.report(id, { type: 'RETRIED', msg: '' });
    assertError(answer, 400, `Run '${id}' has no retries left`);
    assert.equal((await steps.get(id)).current_attempt, 1);
  });

  test('after the last failure, a manual retry allows as many failures as at first', async () => {
    const { id } = await steps.running({ retry_policy: { max_attempts: 3 } });
    const states = [(await steps.event(id, 'FAILED')).state];
    for (let attempt = 2; attempt <= 6; attempt += 1) {
      if (attempt === 4) await service.send('POST', `/runs/${id}/retry`);
      await steps.claimUntil(id);
      states.push((await steps.event(id, 'FAILED')).state);
    }
    assert.deepEqual(states, ['PENDING', 'PENDING', 'FAILED', 'PENDING', 'PENDING', 'FAILED']);
  });

  test('outputs of a completed attempt stay with it, and the next one starts from the template', async () => {
    const { id } = await steps.running({ outputs: { url: 'u' } });
    assert.deepEqual((await steps.event(id, 'COMPLETED', { outputs: { n: 1 } })).outputs, { n: 1 });
    await service.send('POST', `/runs/${id}/retry`);
    assert.deepEqual((await steps.get(id)).outputs, { url: 'u' });
    await steps.claimUntil(id);
    const run = await steps.event(id, 'COMPLETED');
    assert.deepEqual([run.outputs, run.progress], [{ url: 'u' }, 100]);
    assert.deepEqual(
      (await steps.attempts(id)).map(({ outputs }) => outputs),
      [{ n: 1 }, { url: 'u' }],
    );
  });

  test('end with the 1,000th: a retry of it is refused, and a failure of it ends the run', async () => {
    const { id } = await steps.assigned({ retry_policy: { max_attempts: 1000 } });
    const journal = service.app.get(RunJournal);
    const retry = { type: 'RETRIED', msg: '', payload: { force: true } };
    await Promise.all(Array.from({ length: 999 }, () => journal.change(id, eventCommand(retry))));
    const detail = `Run '${id}' has reached the limit of 1000 attempts`;
    assertError(await service.send('POST', `/runs/${id}/retry`), 400, detail);
    await steps.claimUntil(id);
    const run = await steps.event(id, 'FAILED');
    assert.deepEqual([run.state, run.current_attempt], ['FAILED', 1000]);
    assertError(await service.send('POST', `/runs/${id}/retry`), 400, detail);
    const attempts = await steps.attempts(id);
    assert.deepEqual(
      attempts.map(({ attempt }) => attempt),
      Array.from({ length: 1000 }, (_, i) => i + 1),
    );
  });
});

/** Timeline entries without their times. */
function entries(events: readonly { readonly t: string }[]): object[] {
  return events.map(({ t: _t, ...entry }) => entry);
}

function progress(id: number, attempt: number): object {
  return { id, attempt, type: 'PROGRESS', msg: attempt * 10, payload: {} };
}

function failed(id: number, attempt: number): object {
  return { id, attempt, type: 'FAILED', msg: 'no', payload: { error_message: `broke ${attempt}` } };
}

function retried(id: number, attempt: number): object {
  return { id, attempt, type: 'RETRIED', msg: 'Automatic retry', payload: { force: false } };
}

import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('attempts of a run', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

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

  test('a cancelled run is handed to nobody', async () => {
    await steps.emptyQueue();
    const { id } = await steps.create();
    await service.send('POST', `/runs/${id}/cancel`);
    assert.deepEqual(await steps.claim(), []);
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

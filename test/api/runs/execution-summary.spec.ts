import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

function afterAssignment(summary: Record<string, string>, ms: number): string {
  return new Date(Date.parse(summary['assigned_at'] ?? '') + ms).toISOString();
}

describe('the execution summary', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat();
  });

  test('gains each field when it becomes known, in the run and in its attempt alike', async () => {
    const created = await steps.create({ priority: 2 ** 31 - 1 });
    const { id } = created;
    const seen: Record<string, unknown>[] = [];
    const look = async (): Promise<Record<string, string>> => {
      const run = await steps.get(id);
      const [attempt] = await steps.attempts(id);
      assert.deepEqual(attempt.execution_summary, run.execution_summary);
      assert.equal(attempt.started_at, run.execution_summary.started_at ?? null);
      assert.equal(attempt.finished_at, run.execution_summary.finished_at ?? null);
      assert.equal(attempt.constraints.gpu_id, run.execution_summary.gpu_id ?? null);
      assert.equal(run.constraints.gpu_id, attempt.constraints.gpu_id);
      seen.push(run.execution_summary);
      return run.execution_summary;
    };
    assert.deepEqual(await look(), {});

    await steps.claimUntil(id);
    const { updatedAt: assignedAt } = await steps.get(id);
    const queued = { queued_ms: millis(created.createdAt, assignedAt) };
    const assigned = { worker_id: 'w', assigned_at: assignedAt, ...queued };
    assert.deepEqual(await look(), assigned);

    const { updatedAt: startedAt } = await steps.event(id, 'STARTED', { worker_id: 'w', gpu_id: 2 });
    const started = { ...assigned, gpu_id: 2, started_at: startedAt };
    assert.deepEqual(await look(), started);

    await steps.event(id, 'PROGRESS', undefined, 50);
    await steps.event(id, 'STARTED', { worker_id: 'w' }, 'said twice');
    assert.deepEqual(await look(), started);

    const failure = { error_message: 'broke', cause: 'oom', exit_code: 137 };
    const { updatedAt: finishedAt } = await steps.event(id, 'FAILED', failure);
    const finished = { finished_at: finishedAt, duration_ms: millis(startedAt, finishedAt) };
    assert.deepEqual(await look(), { ...started, ...finished, ...failure });
  });

  test('has the times of the container where the worker says them, within the assignment and the report', async () => {
    const { id, execution_summary: assigned } = await steps.assigned({ retry_policy: { max_attempts: 2 } });
    const started_at = afterAssignment(assigned, 1);
    const finished_at = afterAssignment(assigned, 3);
    const running = await steps.event(id, 'STARTED', { worker_id: 'w', started_at });
    assert.ok(running.execution_summary.started_at >= assigned.assigned_at);
    let now = running.updatedAt;
    while (now <= finished_at) now = (await steps.event(id, 'PROGRESS', undefined, 1)).updatedAt;
    await steps.event(id, 'FAILED', { started_at, finished_at });
    const [first] = await steps.attempts(id);
    assert.deepEqual([first.started_at, first.finished_at], [started_at, finished_at]);
    assert.equal(first.execution_summary.duration_ms, 2);

    await steps.heartbeat();
    await steps.claimUntil(id);
    const again = (await steps.get(id)).execution_summary;
    await steps.event(id, 'STARTED', { worker_id: 'w', started_at: '2000-01-01T00:00:00Z' });
    const ended = await steps.event(id, 'COMPLETED', { finished_at: '2100-01-01T00:00:00+01:00' });
    assert.equal(ended.execution_summary.started_at, again.assigned_at);
    assert.equal(ended.execution_summary.finished_at, ended.updatedAt);
  });

  test('has no error message when FAILED carries none', async () => {
    const { id } = await steps.running();
    const { execution_summary: summary } = await steps.event(id, 'FAILED', { error_message: null });
    assert.ok(!('error_message' in summary));
    assert.ok(!('exit_code' in summary));
    assert.equal(summary.cause, 'error');
  });

  test('of a new attempt forgets the worker, while the ended one keeps its own', async () => {
    const { id } = await steps.assigned({ retry_policy: { max_attempts: 2 } }, 'first');
    await steps.event(id, 'STARTED', { worker_id: 'first', gpu_id: 0 });
    const { execution_summary: held, constraints } = await steps.get(id);
    assert.equal(constraints.gpu_id, 0);
    const run = await steps.event(id, 'FAILED', { error_message: 'broke' });
    assert.deepEqual([run.execution_summary, run.constraints.gpu_id], [{}, null]);
    const [first, second] = await steps.attempts(id);
    assert.deepEqual(first.execution_summary, {
      ...held,
      cause: 'error',
      error_message: 'broke',
      finished_at: run.updatedAt,
      duration_ms: millis(held.started_at, run.updatedAt),
    });
    assert.deepEqual([first.constraints.gpu_id, first.started_at], [0, held.started_at]);
    assert.deepEqual([second.execution_summary, second.constraints.gpu_id], [{}, null]);

    await steps.heartbeat('second');
    await steps.claimUntil(id, 'second');
    const assigned = await steps.get(id);
    assert.deepEqual(assigned.execution_summary, {
      worker_id: 'second',
      assigned_at: assigned.updatedAt,
      // Counted from the moment the second attempt entered the queue.
      queued_ms: millis(run.updatedAt, assigned.updatedAt),
    });
  });
});

function millis(from: string, to: string): number {
  return Date.parse(to) - Date.parse(from);
}

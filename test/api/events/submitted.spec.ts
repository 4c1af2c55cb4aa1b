import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { RunSteps, type Fence } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const HOLDER: Fence = { worker: 'w', attempt: 1 };
const JOB = { engine: 'kubernetes', engine_id: 'uid-1' };
const NO_ROOM = { ...JOB, reason: '0/3 nodes are available: 3 Insufficient cpu.' };

describe('SUBMITTED', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const submit = (id: string, payload: unknown = JOB, fence: Fence = HOLDER): Promise<TestAnswer> =>
    steps.report(id, { type: 'SUBMITTED', msg: 'submitted', payload }, fence);
  async function submitted(id: string, payload?: unknown, fence?: Fence): Promise<void> {
    bodyOf(await submit(id, payload, fence), 'OpRun');
  }
  async function explain(id: string): Promise<any> {
    return bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
  }
  const typesOf = async (id: string): Promise<string[]> => (await steps.poll(id)).map(({ type }) => type);

  describe('on the timeline', () => {
    test('is recorded of an ASSIGNED run and changes nothing else', async () => {
      const assigned = await steps.assigned({ timeouts: { start_within_s: 60 } });
      const deadline = await explain(assigned.id);
      await submitted(assigned.id, NO_ROOM);
      const { events, updatedAt, ...rest } = await steps.get(assigned.id);
      const { events: _, updatedAt: assignedAt, ...earlier } = assigned;
      assert.deepEqual(rest, earlier);
      assert.ok(updatedAt >= assignedAt);
      assert.deepEqual(
        events.map(({ t: _t, ...event }: any) => event),
        [{ id: 0, attempt: 1, type: 'SUBMITTED', msg: 'submitted', payload: NO_ROOM }],
      );
      assert.deepEqual((await explain(assigned.id)).deadline.at, deadline.deadline.at);
    });

    test('does not extend the time in which the run must start', async () => {
      const { id } = await steps.assigned({ timeouts: { start_within_s: 60 } });
      await letTimePass(service.dataSource, [id], 50);
      await submitted(id);
      await letTimePass(service.dataSource, [id], 10);
      const run = await until(
        () => steps.get(id),
        ({ state }) => state === 'FAILED',
      );
      assert.deepEqual(
        [run.execution_summary.error_message, run.execution_summary.cause],
        [
          "Not started within 60 s: assigned to worker 'w', which submitted it to kubernetes as uid-1; it waits there",
          'timeout',
        ],
      );
      assert.deepEqual(await typesOf(id), ['SUBMITTED', 'FAILED']);
    });

    test('is taken while the run is RUNNING, and refused from any but the holder and when the run has ended', async () => {
      const { id } = await steps.running();
      await submitted(id);
      assert.equal((await steps.get(id)).state, 'RUNNING');
      const other = { worker: 'other', attempt: 1 };
      assertError(await submit(id, JOB, other), 409, `Run '${id}' is not assigned to worker 'other'`);
      const later = { worker: 'w', attempt: 2 };
      assertError(await submit(id, JOB, later), 409, `Run '${id}' attempt 2 is not current`);
      await steps.event(id, 'COMPLETED');
      assertError(await submit(id), 400, 'Run is already in terminal state COMPLETED');
      const { id: pending } = await steps.create();
      assertError(await submit(pending), 409, `Run '${pending}' is not assigned to worker 'w'`);
    });

    test('may hold anything, as an event of that name that an image prints always could', async () => {
      const { id } = await steps.running();
      for (const payload of [{}, { engine: 7 }, { engine: null, engine_id: [] }, { order: 12 }]) {
        await submitted(id, payload);
      }
      assert.equal((await steps.poll(id)).length, 5);
    });
  });

  describe('in an explanation', () => {
    test('names engine and job, and passes on the newest reason while the run waits', async () => {
      const { id } = await steps.assigned();
      assert.equal((await explain(id)).holder.engine, null);
      await submitted(id, NO_ROOM);
      const [{ t: at }] = await steps.poll(id);
      const waiting = await explain(id);
      assert.deepEqual(waiting.holder.engine, {
        name: 'kubernetes',
        id: 'uid-1',
        reason: NO_ROOM.reason,
        at,
      });
      const where = "Assigned to worker 'w', which submitted it to kubernetes as uid-1; it waits there";
      assert.equal(waiting.summary, `${where}: 0/3 nodes are available: 3 Insufficient cpu.`);

      await submitted(id, { ...JOB, reason: 'ContainerCreating' });
      assert.equal((await explain(id)).summary, `${where}: ContainerCreating.`);
      await submitted(id);
      const without = await explain(id);
      assert.deepEqual([without.holder.engine.reason, without.summary], [null, `${where}.`]);
    });

    test('names the job without a reason while the container runs', async () => {
      const { id } = await steps.assigned();
      await submitted(id, NO_ROOM);
      await steps.event(id, 'STARTED', { worker_id: 'w' });
      const { holder, summary } = await explain(id);
      assert.deepEqual([holder.engine.id, holder.engine.reason], ['uid-1', null]);
      assert.equal(summary, "Running on worker 'w', which submitted it to kubernetes as uid-1.");
    });

    test('ignores what a program prints under that name, and payloads without an engine and a job', async () => {
      const { id } = await steps.assigned();
      await submitted(id, { engine: 'slurm' });
      await submitted(id, { engine: 1, engine_id: 2, reason: 3 });
      assert.equal((await explain(id)).holder.engine, null);
      await submitted(id, { ...JOB, reason: { not: 'text' } });
      assert.deepEqual(
        [(await explain(id)).holder.engine.id, (await explain(id)).holder.engine.reason],
        ['uid-1', null],
      );
      await steps.event(id, 'STARTED', { worker_id: 'w' });
      await submitted(id, { engine: 'forged', engine_id: 'forged' });
      assert.equal((await explain(id)).holder.engine.id, 'uid-1');
    });

    test('forgets the job of an attempt that is over, and of a worker that lost the run', async () => {
      const { id } = await steps.assigned();
      await submitted(id, NO_ROOM);
      await service.send('POST', `/runs/${id}/retry`);
      assert.equal((await explain(id)).holder, null);
      await steps.claimUntil(id);
      assert.equal((await explain(id)).holder.engine, null);
      await submitted(id, { ...JOB, engine_id: 'uid-2' }, { worker: 'w', attempt: 2 });
      assert.equal((await explain(id)).holder.engine.id, 'uid-2');

      await service.send('PATCH', `/runs/${id}`, { body: { state: 'PENDING' } });
      await steps.claimUntil(id);
      const { attempt, holder } = await explain(id);
      assert.deepEqual([attempt, holder.engine], [2, null]);
    });

    test('shows the beginning of the first line of a long reason', async () => {
      const { id } = await steps.assigned();
      await submitted(id, { ...JOB, reason: `${'x'.repeat(5000)}\nsecond` });
      const { holder, summary } = await explain(id);
      assert.equal(holder.engine.reason, 'x'.repeat(2000));
      assert.ok(summary.endsWith(`it waits there: ${'x'.repeat(200)}.`), summary);
    });
  });
});

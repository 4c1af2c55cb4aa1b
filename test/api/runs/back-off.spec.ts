import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeTimeOut, letTimePass, until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const FIRST = 2 ** 31 - 1;
const PATIENT = { priority: FIRST, retry_policy: { max_attempts: 100, backoff_s: 60 } };
const QUIET_MS = 150;

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('a run in back-off', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const pass = (id: string, seconds: number): Promise<void> => letTimePass(service.dataSource, [id], seconds);
  const claimed = async (): Promise<string[]> => (await steps.claim()).map((op) => op.id);
  const isQueued = async (id: string): Promise<boolean> =>
    (await service.dataSource.query('select 1 from queue where run_id = $1', [id])).length > 0;
  const untilQueued = (id: string): Promise<unknown> =>
    until(
      () => isQueued(id),
      (queued) => queued,
    );
  const timersOf = (id: string): Promise<unknown[]> =>
    service.dataSource.query('select due_at from run_timers where run_id = $1', [id]);
  /** Seconds between the failure and the end of the back-off. */
  const pauseOf = async (id: string): Promise<number> => {
    const [row] = await service.dataSource.query(
      'select extract(epoch from not_before - updated_at)::float8 as s from runs where id = $1',
      [id],
    );
    return row.s;
  };
  /** A run whose first attempt has just failed. */
  const inBackOff = async (body: object = {}): Promise<string> => {
    const { id } = await steps.running({ ...PATIENT, ...body });
    const run = await steps.event(id, 'FAILED', { error_message: 'no luck' });
    assert.deepEqual([run.state, run.current_attempt], ['PENDING', 2]);
    return id;
  };

  test('shows as PENDING and is not handed out until its pause is over', async () => {
    const id = await inBackOff();
    assert.equal((await steps.get(id)).state, 'PENDING');
    assert.deepEqual(await claimed(), []);
    await pass(id, 29);
    await sleep(QUIET_MS);
    assert.deepEqual(await claimed(), []);
    await pass(id, 31);
    await untilQueued(id);
    assert.deepEqual(await claimed(), [id]);
  });

  test('enters the queue without an entry on its timeline, and waits from then on', async () => {
    const id = await inBackOff();
    const { events } = await steps.get(id);
    await pass(id, 60);
    await untilQueued(id);
    await steps.claimUntil(id);
    const run = await steps.get(id);
    assert.deepEqual(run.events, events);
    assert.ok(run.execution_summary.queued_ms < 10_000, `${run.execution_summary.queued_ms} ms in the queue`);
  });

  test('does not come back together with others that failed together', async () => {
    const pauses = new Set<number>();
    for (let i = 0; i < 8; i += 1) pauses.add(await pauseOf(await inBackOff()));
    assert.ok(pauses.size > 4, [...pauses].join(', '));
  });

  test('wakes a worker that waits for work when its pause is over', async () => {
    const id = await inBackOff();
    const waiting = service.send('POST', '/workers/w/claim?wait=30');
    await sleep(QUIET_MS);
    await pass(id, 60);
    const answer = await beforeTimeOut(service, waiting);
    assert.deepEqual(
      answer.body.ops.map((op: any) => [op.id, op.attempt]),
      [[id, 2]],
    );
  });

  test('is cancelled like any other, and stays so', async () => {
    const id = await inBackOff();
    const { body } = await service.send('POST', `/runs/${id}/cancel`);
    assert.equal(body.state, 'CANCELLED');
    assert.deepEqual(await timersOf(id), []);
    await pass(id, 60);
    await sleep(QUIET_MS);
    assert.equal((await steps.get(id)).state, 'CANCELLED');
    assert.equal(await isQueued(id), false);
  });
});

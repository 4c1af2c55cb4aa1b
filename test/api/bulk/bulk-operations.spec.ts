import assert from 'node:assert/strict';
import { SchedulerRegistry } from '@nestjs/schedule';
import { beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import {
  BULK_OPERATIONS,
  BulkOperationsJob,
  KEEP_OPERATIONS_MS,
} from '../../../src/runs/bulk/bulk-operations.job.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { bulkOperationSteps } from '../../support/runs/bulk-operation-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** The job runs only when a test asks for it. */
describe('bulk operations', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let job: BulkOperationsJob;

  beforeAll(() => {
    job = service.app.get(BulkOperationsJob, { strict: false });
    service.app.get(SchedulerRegistry).deleteTimeout(BULK_OPERATIONS);
  });

  const { ask, start, show, createMany, afterFirstPage } = bulkOperationSteps(service);
  const statesOf = async (ids: readonly string[]): Promise<string[]> =>
    (
      await rows<{ state: string }>(service.dataSource, 'select state from runs where id = any($1::uuid[])', [
        ids,
      ])
    ).map(({ state }) => state);
  const failed = async (): Promise<string> => (await steps.inState('FAILED', { image: 'meanwhile' })).id;
  const removeAfter = (ms: number): Promise<number> =>
    job.removeOld({
      now: async () => new Date(Date.now() + KEEP_OPERATIONS_MS + ms),
      stop: new AbortController().signal,
    });

  test('cancel with their reason the runs that match at the call, and none that is created later', async () => {
    const ids = await createMany(101, 'at-the-call');
    const ended = ids.slice(0, 2);
    for (const id of ended) await service.send('POST', `/runs/${id}/cancel`);
    const others = await createMany(1, 'other');
    const id = await start({
      action: 'cancel',
      filter: { image: 'at-the-call', state: 'PENDING' },
      reason: 'wrong',
    });
    const later = await createMany(3, 'at-the-call');
    assert.deepEqual([(await show(id)).state, (await show(id)).counts], ['running', [99, 0, 0, 99]]);
    await job.runOnce();
    const { state, counts, shown } = await show(id);
    assert.deepEqual([state, counts], ['done', [99, 99, 0, 0]]);
    assert.ok(shown.ended_at >= shown.created_at);
    assert.deepEqual(new Set(await statesOf(ids)), new Set(['CANCELLED']));
    assert.deepEqual(new Set(await statesOf([...later, ...others])), new Set(['PENDING']));
    const last = await steps.get(ids.at(-1) ?? '');
    assert.equal(last.execution_summary.cancel_reason, 'wrong');
    assert.equal(last.events.at(-1).type, 'CANCELLED');
    assert.equal((await steps.get(ended[0] ?? '')).execution_summary.cancel_reason, undefined);
  });

  test('change nothing by a dry run, which counts the runs and shows the newest 10', async () => {
    const ids = await createMany(12, 'dry');
    const preview = await ask({ action: 'cancel', filter: { image: 'dry' }, dry_run: true });
    const { matched, runs, by_state: byState } = bodyOf(preview, 'BulkPreview');
    assert.equal(matched, 12);
    assert.deepEqual(byState, {
      PENDING: 12,
      ASSIGNED: 0,
      RUNNING: 0,
      COMPLETED: 0,
      FAILED: 0,
      CANCELLED: 0,
    });
    assert.deepEqual(
      runs.map((run: { id: string }) => run.id),
      ids.toReversed().slice(0, 10),
    );
    assert.deepEqual(new Set(await statesOf(ids)), new Set(['PENDING']));
    assert.equal(
      (await rows(service.dataSource, `select from bulk_operations where filter ->> 'image' = 'dry'`)).length,
      0,
    );
  });

  test('start only with the number of runs that is expected, if one is', async () => {
    const ids = await createMany(2, 'expected');
    for (const dry_run of [true, false]) {
      const body = { action: 'cancel', filter: { image: 'expected' }, expect: 3, dry_run };
      assertError(await ask(body), 409, 'The filter matches 2 runs, not 3');
    }
    const id = await start({ action: 'cancel', filter: { image: 'expected' }, expect: 2 });
    await job.runOnce();
    assert.equal((await show(id)).state, 'done');
    assert.deepEqual(await statesOf(ids), ['CANCELLED', 'CANCELLED']);
    const none = await start({ action: 'cancel', filter: { image: 'no-such-image' }, expect: 0 });
    assert.deepEqual([(await show(none)).state, (await show(none)).counts], ['done', [0, 0, 0, 0]]);
  });

  test('refuse a run that is no longer in the state of the filter, that has ended, or that was removed', async () => {
    const [stays, retried, removed] = [await failed(), await failed(), await failed()];
    const retry = await start({ action: 'retry', filter: { image: 'meanwhile', state: 'FAILED' } });
    await service.send('POST', `/runs/${retried}/retry`);
    await execute(service.dataSource, 'delete from runs where id = $1::uuid', [removed]);
    await job.runOnce();
    const { counts, shown } = await show(retry);
    assert.deepEqual(counts, [3, 1, 2, 0]);
    assert.deepEqual(shown.refused, [
      { id: removed, detail: `OpRun '${removed}' not found` },
      { id: retried, detail: 'Run is no longer FAILED, but PENDING' },
    ]);
    for (const id of [stays, retried]) assert.equal((await steps.get(id)).current_attempt, 2);

    const cancel = await start({ action: 'cancel', filter: { image: 'meanwhile' } });
    await service.send('POST', `/runs/${stays}/cancel`);
    await job.runOnce();
    assert.deepEqual((await show(cancel)).shown.refused, [
      { id: stays, detail: 'Run is already in terminal state CANCELLED' },
    ]);
    const byCause = await start({ action: 'retry', filter: { cause: 'oom' } });
    assert.equal((await show(byCause)).shown.matched, 0);
  });

  test('show the first 100 of the runs that they refuse, and count all', async () => {
    const ids = await createMany(120, 'refused');
    const id = await start({ action: 'cancel', filter: { image: 'refused' } });
    for (const part of [ids.slice(0, 100), ids.slice(100)]) {
      await service.send('POST', '/runs/batch/cancel', { body: { ids: part } });
    }
    await job.runOnce();
    assert.deepEqual((await show(id)).counts, [120, 0, 100, 0]);
  });

  test('set labels and priorities, and appear with their callers in the audit log', async () => {
    const ids = await createMany(2, 'labelled');
    const value = { team: 'vision', draft: null };
    const labels = await start({ action: 'labels', filter: { image: 'labelled' }, value, reason: 'sorted' });
    const priority = await start(
      { action: 'priority', filter: { label: ['team=vision'], state: 'PENDING' }, value: 7 },
      KEYS.admin,
    );
    assert.equal((await show(priority)).shown.matched, 0);
    await job.runOnce();
    const again = { action: 'priority', filter: { label: ['team=vision'], state: 'PENDING' }, value: 7 };
    const second = await start(again, KEYS.admin);
    await job.runOnce();
    for (const id of ids) {
      const run = await steps.get(id);
      assert.deepEqual([run.labels, run.priority], [{ team: 'vision' }, 7]);
    }
    const { body } = await service.send('GET', '/audit?limit=10');
    const entries = body.filter(({ action }: { action: string }) => action.startsWith('bulk.'));
    assert.deepEqual(
      [entries[0], entries[2]].map(({ key_name: by, action, subject, before, after }) => ({
        by,
        action,
        subject,
        before,
        after,
      })),
      [
        {
          by: settingsName('admin', KEYS.admin),
          action: 'bulk.start',
          subject: second,
          before: {},
          after: {
            action: 'priority',
            filter: again.filter,
            matched: 2,
            value: 7,
            reason: null,
            done: 2,
            refused: 0,
            stopped: false,
          },
        },
        {
          by: settingsName('client', KEYS.client),
          action: 'bulk.start',
          subject: labels,
          before: {},
          after: {
            action: 'labels',
            filter: { image: 'labelled' },
            matched: 2,
            value,
            reason: 'sorted',
            done: 2,
            refused: 0,
            stopped: false,
          },
        },
      ],
    );
    assert.ok(!body.some(({ action }: { action: string }) => action.startsWith('run.')));
  });

  test('retry without a state in the filter only failed and cancelled runs, and others where it names them', async () => {
    const image = 'retried';
    const labels = { team: 'retry' };
    const of = async (state: Parameters<RunSteps['inState']>[0]): Promise<string> =>
      (await steps.inState(state, { image, labels })).id;
    const states = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
    const ids = await Promise.all(states.map(of));
    for (const filter of [{ image }, { label: ['team=retry'] }, { image, label: ['team=retry'] }]) {
      const dry = bodyOf(await ask({ action: 'retry', filter, dry_run: true }), 'BulkPreview');
      const { FAILED, CANCELLED, ...others } = dry.by_state;
      assert.deepEqual([dry.matched, FAILED, CANCELLED, Object.values(others)], [2, 1, 1, [0, 0, 0, 0]]);
      assert.deepEqual(
        dry.runs.map(({ state }: { state: string }) => state),
        ['CANCELLED', 'FAILED'],
      );
    }
    const cancel = bodyOf(await ask({ action: 'cancel', filter: { image }, dry_run: true }), 'BulkPreview');
    assert.equal(cancel.matched, 5);
    const id = await start({ action: 'retry', filter: { image }, expect: 2 });
    await service.send('POST', `/runs/${ids[3]}/retry`);
    await job.runOnce();
    assert.deepEqual((await show(id)).shown.refused, [
      { id: ids[3], detail: 'Run is no longer FAILED or CANCELLED, but PENDING' },
    ]);
    const named = await start({ action: 'retry', filter: { image, state: 'COMPLETED' } });
    await job.runOnce();
    assert.deepEqual((await show(named)).counts, [1, 1, 0, 0]);
    const attempts = await Promise.all(ids.map(async (run) => (await steps.get(run)).current_attempt));
    assert.deepEqual(attempts, [1, 1, 2, 2, 2]);
  });

  test('start once for an idempotency key, and again after a refusal', async () => {
    await createMany(2, 'keyed');
    const body = { action: 'retry', filter: { image: 'keyed', state: 'PENDING' } };
    assert.equal((await ask({ ...body, expect: 1 }, KEYS.client, 'bulk-1')).status, 409);
    const [first, second] = await Promise.all([1, 2].map(() => ask(body, KEYS.client, 'bulk-1')));
    assert.ok(first && second);
    assert.deepEqual(first.body, second.body);
    assert.deepEqual(
      new Set([first, second].map(({ headers }) => headers.get('idempotency-replayed'))),
      new Set([null, 'true']),
    );
    assertError(
      await ask({ ...body, reason: 'other' }, KEYS.client, 'bulk-1'),
      409,
      'Idempotency-Key was used with another request body',
    );
    await job.runOnce();
    assert.deepEqual((await show(first.body.id)).counts, [2, 2, 0, 0]);
  });

  test('change nothing after they are stopped, and stay ended', async () => {
    const ids = await createMany(250, 'stopped');
    const id = await start({ action: 'cancel', filter: { image: 'stopped' } });
    afterFirstPage(async () => {
      const stopped = await service.send('POST', `/bulk-operations/${id}/stop`, { key: KEYS.client });
      assert.equal(bodyOf(stopped, 'BulkOperation').state, 'stopped');
    });
    await job.runOnce();
    assert.deepEqual([(await show(id)).state, (await show(id)).counts], ['stopped', [250, 100, 0, 150]]);
    assert.equal((await statesOf(ids)).filter((state) => state === 'CANCELLED').length, 100);
    const again = await service.send('POST', `/bulk-operations/${id}/stop`);
    assert.deepEqual(bodyOf(again, 'BulkOperation'), (await show(id)).shown);
    const { body } = await service.send('GET', '/audit?limit=1');
    assert.deepEqual([body[0].action, body[0].subject], ['bulk.stop', id]);
  });

  test('take turns, so that a short one does not wait for the end of a long one', async () => {
    await createMany(250, 'long');
    await createMany(1, 'short');
    const long = await start({ action: 'cancel', filter: { image: 'long' } });
    const short = await start({ action: 'cancel', filter: { image: 'short' } });
    const stop = new AbortController();
    afterFirstPage(() => afterFirstPage(() => stop.abort()));
    await job.runOnce(stop.signal);
    assert.deepEqual([(await show(long)).counts[1], (await show(short)).state], [100, 'done']);
    await job.runOnce();
    assert.equal((await show(long)).state, 'done');
  });

  test('are removed 30 days after their end', async () => {
    const id = await start({ action: 'cancel', filter: { image: 'nothing' } });
    assert.equal(await removeAfter(-3_600_000), 0);
    assert.equal((await show(id)).state, 'done');
    assert.ok((await removeAfter(3_600_000)) > 0);
    assert.equal((await service.send('GET', `/bulk-operations/${id}`)).status, 404);
  });
});

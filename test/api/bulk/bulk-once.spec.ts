import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { SchedulerRegistry } from '@nestjs/schedule';
import { beforeAll, describe, test, vi } from 'vitest';
import { DatabaseUnreachable } from '../../../src/database/failover/unavailable.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { BULK_LEDGER } from '../../../src/runs/bulk/bulk-ledger.js';
import { BULK_OPERATIONS, BulkOperationsJob } from '../../../src/runs/bulk/bulk-operations.job.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { MANUAL_RETRY } from '../../../src/runs/machine/run-event.js';
import { TooManyWaiting } from '../../../src/runs/run.errors.js';
import { eventCommand } from '../../../src/runs/runs.service.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { bulkOperationSteps } from '../../support/runs/bulk-operation-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';

/** The job runs only when a test asks for it. */
describe('what bulk operations write', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  const { start, show, createMany, afterFirstPage } = bulkOperationSteps(service);
  let job: BulkOperationsJob;

  beforeAll(() => {
    job = service.app.get(BulkOperationsJob, { strict: false });
    service.app.get(SchedulerRegistry).deleteTimeout(BULK_OPERATIONS);
  });

  const entriesOf = async (id: string) => {
    const { body } = await service.send('GET', '/audit?limit=10');
    return body.filter(({ subject }: { subject: string }) => subject === id);
  };
  const countKeys = async (): Promise<number> =>
    (await rows(service.dataSource, 'select from idempotency_keys')).length;
  const counted = (): Promise<unknown[]> =>
    rows(
      service.dataSource,
      `select (select count(*) from events) as events, (select count(*) from idempotency_keys) as keys,
              (select count(*) from run_terms) as terms`,
    );

  test('is one entry in the audit log, which is written at their start and completed at their end', async () => {
    await createMany(102, 'audited');
    const id = await start({ action: 'labels', filter: { image: 'audited' }, value: { a: '1' } });
    const [begun, ...more] = await entriesOf(id);
    assert.deepEqual(more, []);
    const { done, refused, stopped, ...given } = begun.after;
    assert.deepEqual([done, refused, stopped], [null, null, null]);
    afterFirstPage(async () => void (await service.send('POST', `/bulk-operations/${id}/stop`)));
    await job.runOnce();
    const [stop, ended] = await entriesOf(id);
    assert.equal(stop.action, 'bulk.stop');
    assert.deepEqual(ended, { ...begun, after: { ...given, done: 100, refused: 0, stopped: true } });
    const none = await start({ action: 'cancel', filter: { image: 'no-such-image' } });
    const [atOnce] = await entriesOf(none);
    assert.deepEqual([atOnce.after.matched, atOnce.after.done, atOnce.after.stopped], [0, 0, false]);
  });

  test('is nothing for a run that is already so', async () => {
    const ids = await createMany(3, 'so');
    const [different = ''] = ids;
    const written = () =>
      rows<{ id: string }>(
        service.dataSource,
        `select id, xmin::text, updated_at, event_count from runs where id = any($1::uuid[]) order by id`,
        [ids],
      );
    const labels = { action: 'labels', filter: { image: 'so' }, value: { team: 'a', gone: null } };
    const priority = { action: 'priority', filter: { image: 'so' }, value: 7 };
    for (const [body, undo] of [
      [labels, ['PATCH', `/runs/${different}/labels`, { labels: { team: 'b' } }]],
      [priority, ['PATCH', `/runs/${different}`, { priority: 1 }]],
    ] as const) {
      await start(body, KEYS.admin);
      await job.runOnce();
      const [before, counts] = [await written(), await counted()];
      const again = await start(body, KEYS.admin);
      await job.runOnce();
      assert.deepEqual([await written(), await counted()], [before, counts]);
      assert.deepEqual((await show(again)).counts, [3, 3, 0, 0]);
      const [method, path, change] = undo;
      assert.equal((await service.send(method, path, { body: change })).status, 200);
      const changed = await written();
      await start(body, KEYS.admin);
      await job.runOnce();
      const isSame = (await written()).map((run, n) => JSON.stringify(run) === JSON.stringify(changed[n]));
      assert.deepEqual(isSame, [false, true, true], 'only the run that was different is written');
    }
  });

  test('is no idempotency key for a run', async () => {
    await createMany(3, 'keyless');
    const before = await countKeys();
    await start({ action: 'cancel', filter: { image: 'keyless' } });
    await job.runOnce();
    await start({ action: 'retry', filter: { image: 'keyless' } });
    await job.runOnce();
    assert.equal(await countKeys(), before);
  });

  test('changes each run once when the answer to the commit of a page is lost', async () => {
    const ids = await createMany(150, 'again');
    const id = await start({ action: 'retry', filter: { image: 'again', state: 'PENDING' } });
    afterFirstPage(() => {
      throw new DatabaseUnreachable('the connection is lost');
    });
    await assert.rejects(job.runOnce(), DatabaseUnreachable);
    assert.deepEqual((await show(id)).counts, [150, 100, 0, 50]);
    await execute(service.dataSource, 'update bulk_operations set due_at = now() where id = $1::uuid', [id]);
    await job.runOnce();
    assert.deepEqual([(await show(id)).state, (await show(id)).counts], ['done', [150, 150, 0, 0]]);
    const attempts = await rows<{ attempt: number }>(
      service.dataSource,
      'select distinct attempt from runs where id = any($1::uuid[])',
      [ids],
    );
    assert.deepEqual(attempts, [{ attempt: 2 }]);
  });

  test('changes each run once when several processes begin the same page', async () => {
    const other = await startTestApp({ database: service.database });
    other.app.get(SchedulerRegistry).deleteTimeout(BULK_OPERATIONS);
    const runIds = await createMany(20, 'both');
    const operationId = await start({ action: 'retry', filter: { image: 'both', state: 'PENDING' } });
    const command = eventCommand(MANUAL_RETRY, {});
    const page = () => ({
      ledger: BULK_LEDGER,
      record: { operationId, first: 0 },
      changes: runIds.map((runId) => ({ runId, command })),
    });
    const caller = { id: randomUUID(), scopes: new Set(['client'] as const) };
    const recorded = await Promise.all(
      [service, other, service, other].map(({ app }) =>
        app.get(RunJournal, { strict: false }).carryOut(page(), caller),
      ),
    );
    await other.close();
    assert.deepEqual(recorded.filter((isRecorded) => isRecorded).length, 1);
    assert.deepEqual(
      [(await show(operationId)).state, (await show(operationId)).counts],
      ['done', [20, 20, 0, 0]],
    );
    for (const id of runIds) assert.equal((await steps.get(id)).current_attempt, 2);
  });

  test('goes on for others when the requests of one key leave its pages no place', async () => {
    await createMany(1, 'no-place');
    await createMany(1, 'place');
    const waiting = await start({ action: 'cancel', filter: { image: 'no-place' } });
    const other = await start({ action: 'cancel', filter: { image: 'place' } });
    const journal = service.app.get(RunJournal, { strict: false });
    vi.spyOn(journal, 'carryOut').mockRejectedValueOnce(
      new TooManyWaiting('SERVICE_JOURNAL_WAITING_PER_KEY'),
    );
    await job.runOnce();
    assert.deepEqual([(await show(waiting)).state, (await show(other)).state], ['running', 'done']);
    await execute(service.dataSource, 'update bulk_operations set due_at = now() where id = $1::uuid', [
      waiting,
    ]);
    await job.runOnce();
    assert.equal((await show(waiting)).state, 'done');
  });
});

import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { rows } from '../../../src/database/sql/sql.js';
import type { Caller } from '../../../src/auth/access.js';
import { BulkRunsService } from '../../../src/runs/bulk/bulk-runs.service.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { eventCommand } from '../../support/runs/journal.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOTE = eventCommand({ type: 'NOTE', msg: '' });
const AWAY = { status: 503, error: { detail: 'The database is not available' } };

const ADMIN: Caller = {
  id: 'admin',
  keyId: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b',
  name: 'admin',
  scopes: new Set(['admin']),
  workerIds: null,
  workerTags: null,
  workerCapabilities: null,
  stores: null,
  expiresAt: null,
};

/** Keys of the items of one request. */
const keys = (_: unknown, index: number) => ({ scope: `in two commits/${index}`, requestHash: '' });

describe('bulk calls while the database fails', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);
  const bulk = new BulkSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat('w');
  });

  /** Runs the action, and breaks the connection of whoever waits for the run meanwhile. */
  async function breaking<T>(runId: string, action: () => Promise<T>): Promise<T> {
    const holder = service.database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query('select 1 from runs where id = $1 for update', [runId]);
    const result = action();
    for (let broken = 0; broken === 0; await sleep(5)) {
      const waiting = await rows<{ done: boolean }>(
        service.database.dataSource,
        `select pg_terminate_backend(pid) as done
           from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
      );
      broken = waiting.length;
    }
    await holder.rollbackTransaction();
    await holder.release();
    return result;
  }

  const typesOf = async (id: string): Promise<string[]> => (await steps.poll(id)).map(({ type }) => type);

  test('get 503 as a whole, with Retry-After, when no item was carried out; sent again with the key they are', async () => {
    const ids = await bulk.ids(3);
    await bulk.claim('w', 3);
    const events = ids.map((run_id) => ({ run_id, attempt: 1, type: 'NOTE', msg: '' }));
    const answer = await breaking(ids[1] ?? '', () => bulk.postEvents('w', events, { key: 'whole' }));
    assertError(answer, 503, 'The database is not available');
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.deepEqual(await Promise.all(ids.map(typesOf)), [[], [], []]);
    const again = await bulk.report('w', events, { key: 'whole' });
    assert.deepEqual(again, [{ status: 204 }, { status: 204 }, { status: 204 }]);
  });

  test('get 503 for the items that were not carried out, when there is something else to say of others', async () => {
    const [id = ''] = await bulk.ids(1);
    await bulk.claim('w', 1);
    const events = [{ run_id: id, type: 'NOTE', msg: '' }, { run_id: id, type: 'note', msg: '' }, {}];
    const answer = await breaking(id, () => bulk.postEvents('w', events));
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body.results[0], AWAY);
    assert.deepEqual(
      answer.body.results.map(({ status }: { status: number }) => status),
      [503, 400, 400],
    );
  });

  test('never record an event whose predecessor of the same run was lost with its commit', async () => {
    const ids = await bulk.ids(50);
    await bulk.claim('w', 50);
    const [noteOnly = '', other = ''] = await bulk.ids(2, { priority: 9 });
    await bulk.claim('w', 2);
    const started = ids.map((run_id) => ({ run_id, type: 'STARTED', msg: '', payload: { worker_id: 'w' } }));
    const completed = ids.slice(1).map((run_id) => ({ run_id, attempt: 1, type: 'COMPLETED', msg: '' }));
    const events = [...started, ...completed, { run_id: noteOnly, type: 'NOTE', msg: '' }];
    const report = (): Promise<readonly object[]> =>
      service.app.get(BulkRunsService).report('w', events, keys, ADMIN);
    const journal = service.app.get(RunJournal);
    // Together with these the first 50 events fill a commit, which fails; the others come with the next.
    const lost = await breaking(ids[7] ?? '', () => {
      const others = Array.from({ length: 150 }, () => journal.change(other, NOTE, { caller: ADMIN }));
      return Promise.all([Promise.allSettled(others), report()]);
    });
    assert.ok(lost[0].every(({ status }) => status === 'rejected'));
    assert.deepEqual(
      lost[1],
      events.map(({ run_id }, i) => {
        if (i < 50) return AWAY;
        if (run_id === noteOnly) return { status: 204 };
        const detail = `An earlier event of run '${run_id}' could not be recorded`;
        return { status: 503, error: { detail } };
      }),
    );
    assert.deepEqual(await typesOf(ids[1] ?? ''), []);
    const again = await report();
    assert.deepEqual(
      again,
      events.map(({ run_id }) => (run_id === noteOnly ? { status: 204, replayed: true } : { status: 204 })),
    );
    for (const id of ids.slice(1)) assert.deepEqual(await typesOf(id), ['STARTED', 'COMPLETED']);
  });
});

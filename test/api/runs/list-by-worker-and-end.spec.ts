import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { addExecutions } from '../../support/runs/executions.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

interface Row {
  readonly id: string;
  readonly state: string;
  readonly image: string;
  readonly worker: string | null;
  readonly team: string | null;
  readonly created: number;
  readonly ended: number | null;
}

/** A part of a query, and which runs pass it. */
type Condition = readonly [query: string, passes: (run: Row) => boolean];

describe('GET /runs by worker_id and ended', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const ids = async (query: string, limit = 100): Promise<string[]> => {
    const { status, body, text } = await service.send('GET', `/runs?limit=${limit}&${query}`);
    assert.equal(status, 200, text);
    return body.data.map((run: { id: string }) => run.id);
  };

  const matched = async (filter: Readonly<Record<string, unknown>>): Promise<unknown> => {
    const body = { action: 'retry', filter, dry_run: true };
    return bodyOf(await service.send('POST', '/bulk-operations', { body }), 'BulkPreview').matched;
  };

  test('a run is in the list of the worker that its current attempt was assigned to, and of no other', async () => {
    const { id } = await steps.create({ image: 'moving' });
    const isListed = async (worker: string, state = ''): Promise<boolean> =>
      (await ids(`worker_id=${worker}${state === '' ? '' : `&state=${state}`}`)).includes(id);
    await steps.heartbeat('a');
    await steps.claim('a');
    assert.deepEqual(
      [await isListed('a'), await isListed('a', 'ASSIGNED'), await isListed('b')],
      [true, true, false],
    );
    await steps.event(id, 'STARTED', { worker_id: 'a' });
    assert.deepEqual([await isListed('a', 'RUNNING'), await isListed('a', 'ASSIGNED')], [true, false]);
    await steps.event(id, 'COMPLETED');
    assert.deepEqual(
      [await isListed('a'), await isListed('a', 'COMPLETED'), await isListed('a', 'FAILED')],
      [true, true, false],
    );
    await service.send('POST', `/runs/${id}/retry`);
    assert.deepEqual([await isListed('a'), await isListed('a', 'PENDING')], [false, false]);
    await steps.heartbeat('b');
    await steps.claim('b');
    await service.send('POST', `/runs/${id}/cancel`);
    assert.deepEqual(
      [await isListed('a'), await isListed('b'), await isListed('b', 'CANCELLED')],
      [false, true, true],
    );
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'FAILED' } });
    assert.deepEqual([await isListed('b', 'CANCELLED'), await isListed('b', 'FAILED')], [false, true]);
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'RUNNING' } });
    assert.deepEqual([await isListed('b'), await isListed('b', 'RUNNING')], [false, false]);
    await steps.event(id, 'STARTED', { worker_id: 'a' });
    assert.deepEqual([await isListed('a', 'RUNNING'), await isListed('b')], [true, false]);
  });

  test('both combine with all other filters, in pages in both directions', async () => {
    for (let n = 0; n < 40; n += 1) {
      const extra = n % 3 === 0 ? { labels: { team: 'x' }, name: `p${n}` } : {};
      await steps.create({ image: `picked-${n % 2}`, ...extra });
    }
    for (const worker of ['w-1', 'w-2']) {
      await steps.heartbeat(worker);
      for (let n = 0; n < 16; n += 1) {
        const [op] = await steps.claim(worker);
        if (n % 5 === 0) continue;
        await steps.event(op.id, 'STARTED', { worker_id: worker });
        if (n % 5 > 2) await steps.event(op.id, 'COMPLETED');
        else if (n % 5 > 1) await steps.event(op.id, 'FAILED', { error_message: 'x' });
      }
    }
    // Created a minute apart. They end after up to 49 minutes, so that some were created before runs that ended earlier.
    await execute(
      service.dataSource,
      `update runs r
          set created_at = v.at,
              finished_at = case when r.finished_at is not null then v.at + v.n * 7 % 50 * interval '1 minute' end
         from (
           select id, n, date_trunc('second', now()) - interval '1 day' + n * interval '1 minute' as at
             from (select id, row_number() over (order by id) as n from runs) numbered
         ) v
        where r.id = v.id`,
    );
    await addExecutions(service.dataSource);
    const all = await rows<Row>(
      service.dataSource,
      `select id, state, image, worker_id as worker, labels ->> 'team' as team,
              extract(epoch from created_at)::float8 as created, extract(epoch from finished_at)::float8 as ended
         from runs order by created_at desc, id desc`,
    );
    const ends = all.flatMap(({ ended }) => ended ?? []).toSorted((a, b) => a - b);
    const [low = 0, high = 0] = [ends[5], ends.at(-4)];
    assert.ok(all.some(({ created, ended }) => created < low && ended !== null && ended >= low));
    const workers: readonly Condition[] = [
      ['', () => true],
      ['worker_id=w-1', ({ worker }) => worker === 'w-1'],
      ['worker_id=nobody', () => false],
    ];
    const times: readonly Condition[] = [
      ['', () => true],
      [`ended[gte]=${low}`, ({ ended }) => ended !== null && ended >= low],
      [`ended[gt]=${low}&ended[lt]=${high}`, ({ ended }) => ended !== null && ended > low && ended < high],
      [`ended[lte]=${low}`, ({ ended }) => ended !== null && ended <= low],
    ];
    const others: readonly Condition[] = [
      ['', () => true],
      ['state=FAILED', ({ state }) => state === 'FAILED'],
      ['state=RUNNING', ({ state }) => state === 'RUNNING'],
      ['state=PENDING', ({ state }) => state === 'PENDING'],
      ['image=picked-1', ({ image }) => image === 'picked-1'],
      ['label=team=x', ({ team }) => team === 'x'],
      ['label=team=x&label=team=y&image=picked-0', ({ team, image }) => team === 'x' && image === 'picked-0'],
      ['name_prefix=p', ({ team }) => team === 'x'],
      ['exit_code=1', () => false],
      [`created[gte]=${low}`, ({ created }) => created >= low],
      [`created[lt]=${low}`, ({ created }) => created < low],
    ];
    for (const parts of workers.flatMap((worker) =>
      times.flatMap((time) => others.map((other) => [worker, time, other])),
    )) {
      const query = parts.flatMap(([text]) => (text === '' ? [] : [text])).join('&');
      const expected = all.filter((run) => parts.every(([, passes]) => passes(run))).map(({ id }) => id);
      assert.deepEqual(await ids(query), expected, query);
      for (let n = 0; n < all.length; n += 13) {
        const cursor = all[n]?.id ?? '';
        const isBefore = (id: string): boolean => all.findIndex((run) => run.id === id) < n;
        const [newer, older] = [
          expected.filter(isBefore),
          expected.filter((id) => id !== cursor && !isBefore(id)),
        ];
        const what = `${query} around ${n}`;
        assert.deepEqual(await ids(`${query}&starting_after=${cursor}`, 3), older.slice(0, 3), what);
        assert.deepEqual(await ids(`${query}&ending_before=${cursor}`, 3), newer.slice(-3), what);
      }
    }
  });

  test('a bulk operation takes both in its filter', async () => {
    const { id } = await steps.running({ image: 'bulk' }, 'bulk-worker');
    const { execution_summary: summary } = await steps.event(id, 'FAILED', { error_message: 'x' });
    const at = Math.floor(Date.parse(summary.finished_at) / 1000);
    const ofWorker = { worker_id: 'bulk-worker' };
    assert.equal(await matched(ofWorker), 1);
    assert.equal(await matched({ ...ofWorker, 'ended[gte]': at, 'ended[lt]': at + 1 }), 1);
    assert.equal(await matched({ ...ofWorker, 'ended[gt]': at + 1 }), 0);
    assert.equal(await matched({ image: 'bulk', 'ended[lte]': at - 1 }), 0);
  });

  test('a time or a worker that cannot be is refused', async () => {
    assertError(await service.send('GET', '/runs?ended[gte]=soon'), 400, 'Invalid ended timestamp', [
      'ended[gte] must be UNIX seconds (1793491200), an ISO 8601 date and time with a zone (2026-11-01T00:00:00Z), or a date (2026-11-01, in UTC)',
    ]);
    assert.equal((await service.send('GET', '/runs?worker_id=')).status, 400);
    assert.equal((await service.send('GET', '/runs?ended[eq]=1')).status, 400);
  });

  test('no index of runs depends on a column that an assignment, a start or progress changes', async () => {
    const found = await rows<{ column: string }>(
      service.dataSource,
      `select distinct a.attname as column
         from pg_index i
         join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refobjid = i.indrelid
         join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
        where i.indrelid = 'runs'::regclass`,
    );
    const columns = found.map(({ column }) => column);
    assert.ok(columns.includes('finished_at') && columns.includes('ended_worker'));
    const changing = [
      'state',
      'worker_id',
      'gpu_id',
      'assigned_at',
      'started_at',
      'progress',
      'event_count',
      'updated_at',
    ];
    assert.deepEqual(
      columns.filter((column) => changing.includes(column)),
      [],
    );
  });
});

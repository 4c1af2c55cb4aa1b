import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';

interface Row {
  readonly id: string;
  readonly state: string;
  readonly image: string;
  readonly worker: string | null;
  readonly team: string | null;
  readonly ended: number | null;
}

describe('GET /runs by worker_id and ended', () => {
  let service: TestApp;
  let steps: RunSteps;

  beforeAll(async () => {
    service = await startTestApp();
    steps = new RunSteps(service.send);
  });
  afterAll(() => service.close());

  const ids = async (query: string): Promise<string[]> => {
    const { status, body, text } = await service.send('GET', `/runs?limit=100&${query}`);
    assert.equal(status, 200, text);
    return body.data.map((run: { id: string }) => run.id);
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
    await steps.event(id, 'COMPLETED', {});
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
  });

  test('both combine with the other filters and with the pages of the list', async () => {
    const body = { image: 'picked', labels: { team: 'a' } };
    for (let n = 0; n < 40; n += 1) {
      await steps.create({
        image: `picked-${n % 2}`,
        ...(n % 3 === 0 ? { labels: { team: 'x' }, name: `p${n}` } : {}),
      });
    }
    await steps.create(body);
    for (const worker of ['w-1', 'w-2']) {
      await steps.heartbeat(worker);
      for (let n = 0; n < 15; n += 1) {
        const [op] = await steps.claim(worker);
        if (n % 4 === 0) continue;
        await steps.event(op.id, 'STARTED', { worker_id: worker });
        if (n % 4 !== 1)
          await steps.event(
            op.id,
            n % 4 === 2 ? 'COMPLETED' : 'FAILED',
            n % 4 === 2 ? {} : { error_message: 'x' },
          );
      }
    }
    // Ends at whole seconds, a minute apart.
    await execute(
      service.dataSource,
      `update runs r
          set finished_at = date_trunc('second', created_at) + v.n * interval '1 minute'
         from (select id, row_number() over (order by id) as n from runs where finished_at is not null) v
        where r.id = v.id`,
    );
    const all = await rows<Row>(
      service.dataSource,
      `select id, state, image, worker_id as worker, labels ->> 'team' as team,
              extract(epoch from finished_at)::float8 as ended
         from runs order by created_at desc, id desc`,
    );
    const ends = all.flatMap(({ ended }) => ended ?? []).toSorted((a, b) => a - b);
    const [low = 0, high = 0] = [ends[3], ends[ends.length - 3]];
    const conditions: readonly (readonly [query: string, passes: (row: Row) => boolean])[] = [
      ['', () => true],
      ['worker_id=w-1', ({ worker }) => worker === 'w-1'],
      ['worker_id=nobody', () => false],
      [`ended[gte]=${low}`, ({ ended }) => ended !== null && ended >= low],
      [`ended[gt]=${low}&ended[lt]=${high}`, ({ ended }) => ended !== null && ended > low && ended < high],
      [`ended[lte]=${low}`, ({ ended }) => ended !== null && ended <= low],
    ];
    const others: typeof conditions = [
      ['', () => true],
      ['state=FAILED', ({ state }) => state === 'FAILED'],
      ['state=RUNNING', ({ state }) => state === 'RUNNING'],
      ['state=PENDING', ({ state }) => state === 'PENDING'],
      ['image=picked-1', ({ image }) => image === 'picked-1'],
      ['label=team=x', ({ team }) => team === 'x'],
      ['label=team=x&label=team=y&image=picked-0', ({ team, image }) => team === 'x' && image === 'picked-0'],
      ['name_prefix=p', ({ team }) => team === 'x'],
      ['exit_code=1', () => false],
      ['created[gte]=1', () => true],
    ];
    for (const [first, isFirst] of conditions) {
      for (const [second, isSecond] of conditions) {
        if (first !== '' && first.split(/[=[]/)[0] === second.split(/[=[]/)[0]) continue;
        for (const [third, isThird] of others) {
          const query = [first, second, third].filter((part) => part !== '').join('&');
          const expected = all
            .filter((row) => isFirst(row) && isSecond(row) && isThird(row))
            .map(({ id }) => id);
          assert.deepEqual(await ids(query), expected, query);
          const [head, ...rest] = expected;
          if (head !== undefined) assert.deepEqual(await ids(`${query}&starting_after=${head}`), rest, query);
        }
      }
    }
  });

  test('a time or a worker that cannot be is refused', async () => {
    assertError(await service.send('GET', '/runs?ended[gte]=soon'), 400, 'Invalid ended timestamp');
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

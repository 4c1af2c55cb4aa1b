import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { FeedTails } from '../../../src/feed/cache/feed-tails.js';
import { cursorsOf } from '../../../src/feed/feed-cursors.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('GET /feed', () => {
  const service = useTestApp();
  const createLabelled = (given: object) =>
    service.send('POST', '/runs', {
      body: { image: 'i', event_delivery: { topic: 'labelled', ...given } },
    });
  const get = (query: string, key: string = KEYS.client) => service.send('GET', `/feed?${query}`, { key });

  test('pages by limit, with has_more exact at the boundary, and never repeats or skips', async () => {
    const id = await createRun(service.send, 'paged');
    for (let n = 0; n < 7; n += 1) await note(service.send, id, n);
    for (const limit of [1, 2, 3, 7, 8, 500]) {
      const seen: number[] = [];
      let place = '';
      for (;;) {
        const { body } = await get(`topic=paged&limit=${limit}${place}`);
        seen.push(...body.events.map(({ msg }: { msg: number }) => msg));
        assert.equal(body.has_more, seen.length < 7, `limit ${limit} after ${seen.length}`);
        if (!body.has_more) break;
        assert.equal(body.events.length, limit);
        place = `&after=${body.next_cursor}`;
      }
      assert.deepEqual(seen, [0, 1, 2, 3, 4, 5, 6]);
    }
  });

  test('limits the bytes of a page and reports that more events follow', async () => {
    const id = await createRun(service.send, 'big');
    const big = 'x'.repeat(900_000);
    for (let n = 0; n < 8; n += 1) assert.equal(await note(service.send, id, n, { big }), 204);
    const sizes: number[] = [];
    let place = '';
    for (let more = true; more;) {
      const { body, text } = await get(`topic=big&limit=500${place}`);
      assert.ok(text.length < 6_000_000, `${text.length} bytes`);
      sizes.push(body.events.length);
      place = `&after=${body.next_cursor}`;
      more = body.has_more;
    }
    assert.ok(sizes.length > 1);
    assert.equal(
      sizes.reduce((sum, n) => sum + n),
      8,
    );
  });

  test('refuses topics and parameters that cannot be', async () => {
    const TOPIC = 'topic must be a string without control characters of 1 to 255 characters';
    for (const [query, line] of [
      ['topic=', 'topic must not be empty'],
      [`topic=${'x'.repeat(256)}`, TOPIC],
      ['topic=a%0Ab', TOPIC],
      ['topic=a&after=', 'after must not be empty'],
      ['topic=a&before=x', 'before is not a known query parameter'],
    ] as const)
      assertInvalid(await get(query), [line]);
  });

  test('shows the attributes of the run with each event, and counts them as bytes of the page', async () => {
    const attributes = { tenant: 'a', note: 'x'.repeat(500_000) };
    for (const given of [{ attributes: { tenant: 'b' } }, {}, { attributes: {} }]) {
      assert.equal(await note(service.send, (await createLabelled(given)).body.id, 'x'), 204);
    }
    const { body: small } = await get('topic=labelled');
    assert.deepEqual(
      small.events.map((event: object) => ('attributes' in event ? event.attributes : 'absent')),
      [{ tenant: 'b' }, 'absent', {}],
    );
    const { id } = (await createLabelled({ attributes })).body;
    for (let n = 0; n < 20; n += 1) await note(service.send, id, n);
    const page = await get(`topic=labelled&limit=500&after=${small.next_cursor}`);
    assert.ok(page.text.length < 6_000_000, `${page.text.length} bytes`);
    assert.equal(page.body.has_more, true);
    assert.deepEqual(page.body.events[0].attributes, attributes);
  });

  test('says which event has ended the run, and the name and labels of the run with each', async () => {
    const named = {
      image: 'i',
      priority: 1_000,
      name: 'nightly "a"',
      labels: { team: 'a', large: 'x'.repeat(60) },
    };
    const create = async (given: object): Promise<string> => {
      const body = { ...named, event_delivery: { topic: 'ended' }, ...given };
      return (await service.send('POST', '/runs', { body })).body.id;
    };
    // The first page puts the topic into the cache, which commits then continue.
    await get('topic=ended');
    const completed = await create({});
    const retried = await create({ name: null, labels: null, retry_policy: { max_attempts: 2 } });
    const asWorker = (path: string, body?: object) =>
      service.send('POST', path, { key: KEYS.worker, ...(body && { body }) });
    const resources = { cpu_cores: 8, ram_mb: 8000, gpus: [] };
    await asWorker('/workers/heartbeat', { worker_id: 'w', resources, tags: [], running_ops: [] });
    for (const [id, type] of [
      [completed, 'COMPLETED'],
      [retried, 'FAILED'],
    ]) {
      await asWorker('/workers/w/claim');
      for (const each of ['STARTED', type])
        await asWorker(`/runs/${id}/events`, { type: each, msg: '', payload: { worker_id: 'w' } });
    }
    await note(service.send, retried, 'waits');
    await service.send('POST', `/runs/${retried}/cancel`);
    const shown = async (): Promise<unknown[]> =>
      (await get('topic=ended')).body.events.map(({ type, ended, name, labels }: Record<string, unknown>) => {
        return [type, ended, name, labels];
      });
    const described = [named.name, named.labels];
    const expected = [
      ['STARTED', undefined, ...described],
      ['COMPLETED', true, ...described],
      ['STARTED', undefined, undefined, undefined],
      ['FAILED', undefined, undefined, undefined],
      ['RETRIED', undefined, undefined, undefined],
      ['NOTE', undefined, undefined, undefined],
      ['CANCELLED', true, undefined, undefined],
    ];
    assert.deepEqual(await shown(), expected);
    service.app.get(FeedTails).forget('ended');
    assert.deepEqual(await shown(), expected);
  });

  test('/cursor returns a cursor for the newest or for future events', async () => {
    const cursor = async (query: string): Promise<string> => {
      const { status, body } = await service.send('GET', `/feed/cursor?${query}`);
      assert.equal(status, 200);
      return body.cursor;
    };
    const unused = await cursor('topic=ends&back=5');
    const id = await createRun(service.send, 'ends');
    for (let msg = 1; msg <= 3; msg += 1) await note(service.send, id, msg);
    const behind = async (cursorOfPage: string): Promise<unknown[]> =>
      (await get(`topic=ends&after=${cursorOfPage}`)).body.events.map(({ msg }: { msg: unknown }) => msg);
    assert.deepEqual(await behind(unused), [1, 2, 3]);
    assert.deepEqual(await behind(await cursor('topic=ends&back=2')), [2, 3]);
    assert.deepEqual(await behind(await cursor('topic=ends&back=9')), [1, 2, 3]);
    const end = await cursor('topic=ends');
    await note(service.send, id, 4);
    assert.deepEqual(await behind(end), [4]);
    await service.dataSource.query(`update feed_topics set first_position = 3 where topic = 'ends'`);
    assert.equal((await get(`topic=ends&after=${await cursor('topic=ends&back=9')}`)).status, 200);
    assert.equal((await service.send('GET', '/feed/cursor?topic=ends&back=-1')).status, 400);
  });

  test('refuses cursors that are malformed, altered, of another topic, or ahead of the feed', async () => {
    const id = await createRun(service.send, 'cursors');
    await note(service.send, id, 1);
    const { next_cursor: cursor } = (await get('topic=cursors')).body;
    const refusal = async (cursorText: string) => {
      const { status, body } = await get(`topic=cursors&after=${encodeURIComponent(cursorText)}`);
      assert.equal(status, 400, cursorText);
      return body;
    };
    for (const text of [
      'x',
      '0',
      '-1',
      cursor.slice(1),
      `${cursor}A`,
      cursor.toLowerCase() + '=',
      'A'.repeat(5000),
      // In the form of a cursor after a restore, of which there was none.
      cursorsOf('cursors', 'AbCdEf12')(1),
    ]) {
      assert.deepEqual(await refusal(text), { detail: 'Malformed cursor' });
    }
    assert.deepEqual(await refusal(cursorsOf('other', null)(1)), {
      detail: 'The cursor belongs to the feed of another topic',
    });
    assert.deepEqual(await refusal(cursorsOf('cursors', null)(2)), {
      detail: 'The cursor is ahead of the feed',
    });
    assert.deepEqual(await refusal(cursorsOf('cursors', null)(Number.MAX_SAFE_INTEGER)), {
      detail: 'The cursor is ahead of the feed',
    });
    assert.equal((await get(`topic=unused&after=${cursorsOf('unused', null)(1)}`)).status, 400);
  });
});

describe('GET /feed?wait=', () => {
  const service = useTestApp();

  test('responds as soon as an event arrives, from any process, on a new topic or a known one', async () => {
    const other = await startTestApp({ database: service.database });
    try {
      for (const topic of ['fresh', 'fresh', 'known']) {
        const last = (await service.send('GET', `/feed?topic=${topic}`)).body.next_cursor;
        const place = last === null ? '' : `&after=${last}`;
        const id = await createRun(other.send, topic);
        const waiting = service.send('GET', `/feed?topic=${topic}&wait=30${place}`);
        await sleep(200);
        await note(other.send, id, 'news');
        const { body } = await beforeTimeOut(service, waiting);
        assert.deepEqual(
          body.events.map((event: { run_id: string }) => event.run_id),
          [id],
        );
      }
    } finally {
      await other.close();
    }
  });

  test('ends at once with an empty page when the service drains', async () => {
    const own = await startTestApp({ database: service.database });
    const waiting = own.send('GET', '/feed?topic=drained&wait=30');
    await sleep(200);
    const drained = own.app.get(Drain).begin();
    const { body } = await beforeTimeOut(service, waiting);
    assert.deepEqual(body, { events: [], next_cursor: null, has_more: false });
    await drained;
    await own.close();
  });
});

describe('a service with a default topic', () => {
  const service = useTestApp({ env: { SERVICE_DEFAULT_TOPIC: 'all runs' } });

  test('puts runs that name none on its feed, of each way to create them, and no others', async () => {
    const create = async (path: string, body: object): Promise<string[]> => {
      const { status, body: answer } = await service.send('POST', path, { body });
      assert.ok(status === 200 || status === 201, JSON.stringify(answer));
      const runs = answer.results?.map(({ run }: { run: object }) => run) ?? [answer];
      for (const run of runs) delivered.push(run.event_delivery);
      return runs.map(({ id }: { id: string }) => id);
    };
    const delivered: unknown[] = [];
    const defined = { id: 'd', version: '1', image: 'i', input_specs: {}, output_specs: {} };
    await service.send('POST', '/definitions', { body: defined });
    const [alone = ''] = await create('/runs', { image: 'i' });
    await create('/runs', { image: 'i', event_delivery: { topic: 'own', attributes: { a: 'b' } } });
    const inBulk = await create('/runs/batch', { runs: [{ image: 'i', event_delivery: null }] });
    const ofDefinition = await create('/definitions/d/runs', {});
    await service.send('POST', `/runs/${alone}/cancel`);
    const again = await create(`/runs/${alone}/rerun`, {});
    for (const id of [...inBulk, ...ofDefinition, ...again]) await service.send('POST', `/runs/${id}/cancel`);

    const byDefault = { topic: 'all runs' };
    assert.deepEqual(delivered, [
      byDefault,
      { topic: 'own', attributes: { a: 'b' } },
      byDefault,
      byDefault,
      byDefault,
    ]);
    const { body } = await service.send('GET', '/feed?topic=all%20runs');
    assert.deepEqual(
      body.events.map(({ run_id: id, type, ended }: Record<string, unknown>) => [id, type, ended]),
      [alone, ...inBulk, ...ofDefinition, ...again].map((id) => [id, 'CANCELLED', true]),
    );
  });
});

describe('a service without a feed', () => {
  const service = useTestApp({ env: { SERVICE_FEED_ENABLED: 'false' } });

  test('refuses readers with 503 and accepts runs with topics', async () => {
    const id = await createRun(service.send, 'off');
    assert.equal(await note(service.send, id, 1), 204);
    for (const path of [
      '/feed?topic=off',
      '/feed?topic=off&wait=1',
      '/feed/stream?topic=off',
      '/feed/cursor?topic=off',
    ]) {
      const { status, body, headers } = await service.send('GET', path);
      assert.equal(status, 503, path);
      assert.deepEqual(body, { detail: 'Event feed is not configured' });
      assert.match(headers.get('content-type') ?? '', /^application\/json/);
      assert.equal(headers.get('retry-after'), null, 'asking again does not help');
    }
    assert.deepEqual(await service.dataSource.query('select * from feed_entries'), []);
  });
});

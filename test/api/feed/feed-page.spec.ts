import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeCursor } from '../../../src/feed/feed-cursor.fixtures.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('GET /feed', () => {
  const service = useTestApp();
  const get = (query: string, key: string = KEYS.client) => service.send('GET', `/feed?${query}`, { key });

  test('mirrors every event of a run on its topic as in the timeline, oldest first', async () => {
    const id = await createRun(service.send, 'mirror me');
    const events = [
      { type: 'STARTED', msg: 'go', payload: { worker_id: 'w' } },
      { type: 'PROGRESS', msg: 50 },
      { type: 'NOTE', msg: '', payload: { a: { b: [1, null] }, __proto__x: 1 } },
      { type: 'COMPLETED', msg: 'done', payload: { outputs: { o: 1 } } },
    ];
    await service.send('POST', '/workers/heartbeat', {
      body: { worker_id: 'w', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] },
    });
    await service.send('POST', '/workers/w/claim');
    for (const body of events) {
      assert.equal((await service.send('POST', `/runs/${id}/events`, { body })).status, 200);
    }
    const timeline = (await service.send('GET', `/runs/${id}`)).body.events;
    const page = await get('topic=mirror+me');
    assert.deepEqual(
      page.body.events.map(({ cursor: _cursor, state: _state, ...event }: Record<string, unknown>) => event),
      timeline.map(({ id: _id, ...event }: Record<string, unknown>) => ({ run_id: id, ...event })),
    );
    assert.deepEqual(
      page.body.events.map(({ state }: { state: string }) => state),
      ['RUNNING', 'RUNNING', 'RUNNING', 'COMPLETED'],
    );
    assert.deepEqual(Object.keys(page.body.events[0]), [
      'cursor',
      'run_id',
      'attempt',
      'type',
      'msg',
      't',
      'state',
      'payload',
    ]);
    assert.equal(page.body.next_cursor, page.body.events[3].cursor);
    assert.equal(page.body.has_more, false);
  });

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

  test('accepts any printable topic unchanged', async () => {
    const topic = `${'\u{1F6A2}'.repeat(100)} & %/"'\\ é`;
    const id = await createRun(service.send, topic);
    await note(service.send, id, 'x');
    const { body } = await get(`topic=${encodeURIComponent(topic)}`);
    assert.equal(body.events.length, 1);
  });

  for (const [query, line] of [
    ['', 'topic is required'],
    ['topic=', 'topic must not be empty'],
    [`topic=${'x'.repeat(256)}`, 'topic must be a string without control characters of 1 to 255 characters'],
    ['topic=a%0Ab', 'topic must be a string without control characters of 1 to 255 characters'],
    ['topic=a&limit=0', 'limit must be an integer from 1 to 500'],
    ['topic=a&limit=501', 'limit must be an integer from 1 to 500'],
    ['topic=a&limit=1.5', 'limit must be an integer from 1 to 500'],
    ['topic=a&wait=31', 'wait must be an integer from 0 to 30'],
    ['topic=a&wait=-1', 'wait must be an integer from 0 to 30'],
    ['topic=a&after=', 'after must not be empty'],
    ['topic=a&before=x', undefined],
    ['topic=a&topic=b', 'topic must not be given more than once'],
  ] as const) {
    test(`refuses ?${query.slice(0, 40)} in words`, async () => {
      const { status, body } = await get(query);
      assert.equal(status, 400);
      assert.equal(body.detail, 'Request validation failed');
      if (line === undefined) assert.match(body.errors[0], /before/);
      else assert.deepEqual(body.errors, [line]);
    });
  }

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
      encodeCursor('cursors', 1, 'AbCdEf12'),
    ]) {
      assert.deepEqual(await refusal(text), { detail: 'Malformed cursor' });
    }
    assert.deepEqual(await refusal(encodeCursor('other', 1)), {
      detail: 'The cursor belongs to the feed of another topic',
    });
    assert.deepEqual(await refusal(encodeCursor('cursors', 2)), {
      detail: 'The cursor is ahead of the feed',
    });
    assert.deepEqual(await refusal(encodeCursor('cursors', Number.MAX_SAFE_INTEGER)), {
      detail: 'The cursor is ahead of the feed',
    });
    assert.equal((await get(`topic=unused&after=${encodeCursor('unused', 1)}`)).status, 400);
  });

  test('returns 410 for events that retention has removed, with the oldest valid cursor', async () => {
    const id = await createRun(service.send, 'retained');
    for (let n = 1; n <= 4; n += 1) await note(service.send, id, n);
    const all = (await get('topic=retained')).body.events;
    await service.dataSource.query(
      `with d as (delete from feed_entries where topic = 'retained' and position <= 2)
       update feed_topics set first_position = 3 where topic = 'retained'`,
    );
    const gone = await get(`topic=retained&after=${all[0].cursor}`);
    assert.equal(gone.status, 410);
    assert.equal(gone.headers.get('cache-control'), 'no-store');
    const oldest = /'([\w-]+)'/.exec(gone.body.detail)?.[1];
    assert.equal(oldest, all[1].cursor);
    const messages = async (query: string) =>
      (await get(`topic=retained${query}`)).body.events.map(({ msg }: { msg: number }) => msg);
    assert.deepEqual(await messages(`&after=${oldest}`), [3, 4]);
    assert.deepEqual(await messages(''), [3, 4]);
    assert.deepEqual(await messages(`&after=${all[2].cursor}`), [4]);
    assert.equal((await get(`topic=retained&wait=1&after=${all[0].cursor}`)).status, 410);
  });
});

describe('GET /feed?wait=', () => {
  let service: TestApp;

  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  test('responds at once when there are events', async () => {
    const id = await createRun(service.send, 'there');
    await note(service.send, id, 1);
    const { body } = await beforeTimeOut(service, service.send('GET', '/feed?topic=there&wait=30'));
    assert.equal(body.events.length, 1);
  });

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

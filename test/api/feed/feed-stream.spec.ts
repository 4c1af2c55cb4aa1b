import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { DEFAULT_FEED_LIMITS } from '../../../src/feed/feed-limits.js';
import { cursorsOf } from '../../../src/feed/feed-cursors.js';
import { Drain } from '../../../src/common/http/server/drain.js';
import { EventStreamReader, type StreamOptions } from '../../support/runs/event-stream.js';
import { createRun, note, startFeedApp } from '../../support/app/feed-app.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

function open(service: TestApp, query: string, options?: StreamOptions): Promise<EventStreamReader> {
  return EventStreamReader.open(service.url, `/feed/stream?${query}`, options);
}

function messages(reader: EventStreamReader): unknown[] {
  return reader.events.map(({ data }) => data.msg);
}

/** A drain that cuts nothing off while the test lasts: it ends when all streams have ended by themselves. */
const UNLIMITED = { limitMs: 3_600_000, graceMs: 100 };

/** Value of a metric without labels. */
async function metric(service: TestApp, name: string): Promise<number> {
  const { text } = await service.send('GET', '/metrics');
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

/** Waits until a metric has the value. */
async function untilMetric(service: TestApp, name: string, value: number): Promise<void> {
  const deadline = performance.now() + 120_000;
  while ((await metric(service, name)) !== value) {
    assert.ok(performance.now() < deadline, `${name} does not become ${value}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('GET /feed/stream', () => {
  const service = useTestApp();

  test('sends events as Server-Sent Events whose id is the cursor and whose data is the event of the page', async () => {
    const id = await createRun(service.send, 'framing');
    await note(service.send, id, 'line 1\nline 2\r\u2028', { a: 'id: x\n\ndata: y' });
    await note(service.send, id, 7);
    const page = (await service.send('GET', '/feed?topic=framing')).body.events;
    const { port } = new URL(service.url);
    const connection = await RawConnection.open(Number(port));
    connection.send(requestText('GET', '/feed/stream?topic=framing', { 'X-API-Key': KEYS.client }));
    const reader = await open(service, 'topic=framing');
    await reader.count(2);
    await connection.has(`id: ${page.at(-1).cursor}\n`);
    connection.destroy();
    const text = await connection.closed();
    const [head = '', body = ''] = text.split(/\r\n\r\n(.*)/s);
    assert.match(head, /^HTTP\/1\.1 200 /);
    assert.match(head, /^content-type: text\/event-stream; charset=utf-8$/im);
    // Proxies neither compress nor buffer it.
    assert.match(head, /^content-encoding: identity$/im);
    assert.match(head, /^cache-control: no-cache, no-transform$/im);
    assert.match(head, /^x-accel-buffering: no$/im);
    const frames = page.map(
      (event: { cursor: string }) => `id: ${event.cursor}\ndata: ${JSON.stringify(event)}\n\n`,
    );
    assert.ok(body.includes(frames.join('')), body);
    assert.deepEqual(
      reader.events,
      page.map((data: { cursor: string }) => ({ id: data.cursor, data })),
    );
    reader.close();
  });

  test('sends new events of any process, also on a new topic', async () => {
    const other = await startTestApp({ database: service.database });
    const readers = [await open(service, 'topic=live'), await open(other, 'topic=live')];
    for (let n = 0; n < 3; n += 1) {
      const { send } = n % 2 === 0 ? service : other;
      await note(send, await createRun(send, 'live'), n);
      for (const reader of readers) await reader.count(n + 1);
    }
    for (const reader of readers) {
      assert.deepEqual(messages(reader), [0, 1, 2]);
      reader.close();
    }
    await other.close();
  });

  test('resumes behind `after`; Last-Event-ID takes precedence', async () => {
    const id = await createRun(service.send, 'resumed');
    for (let n = 0; n < 4; n += 1) await note(service.send, id, n);
    const { events } = (await service.send('GET', '/feed?topic=resumed')).body;
    const [first, , third] = events.map(({ cursor }: { cursor: string }) => cursor);
    const header = { 'Last-Event-ID': third };
    const cases: [string, StreamOptions, unknown[]][] = [
      [`&after=${first}`, {}, [1, 2, 3]],
      ['', { headers: header }, [3]],
      [`&after=${first}`, { headers: header }, [3]],
      [`&after=${first}`, { headers: { 'Last-Event-ID': '' } }, [1, 2, 3]],
      ['&after=nonsense', { headers: header }, [3]],
    ];
    for (const [query, options, expected] of cases) {
      const reader = await open(service, `topic=resumed${query}`, options);
      await reader.count(expected.length);
      assert.deepEqual(messages(reader), expected);
      reader.close();
    }
  });

  test('refuses requests with a JSON error', async () => {
    const id = await createRun(service.send, 'refused');
    for (let n = 0; n < 3; n += 1) await note(service.send, id, n);
    await service.dataSource.query(
      `with d as (delete from feed_entries where topic = 'refused' and position <= 2)
       update feed_topics set first_position = 3 where topic = 'refused'`,
    );
    const cases: [string, Record<string, string>, string | null, number][] = [
      ['', {}, KEYS.client, 400],
      ['?topic=refused&limit=1', {}, KEYS.client, 400],
      ['?topic=refused&after=x', {}, KEYS.client, 400],
      ['?topic=refused', { 'Last-Event-ID': 'x' }, KEYS.client, 400],
      ['?topic=refused', { 'Last-Event-ID': cursorsOf('other', null)(1) }, KEYS.client, 400],
      ['?topic=refused', { 'Last-Event-ID': cursorsOf('refused', null)(4) }, KEYS.client, 400],
      ['?topic=refused', { 'Last-Event-ID': cursorsOf('refused', null)(1) }, KEYS.client, 410],
      ['?topic=refused', {}, KEYS.worker, 403],
      ['?topic=refused', {}, null, 401],
    ];
    for (const [query, headers, key, status] of cases) {
      const answer = await service.send('GET', `/feed/stream${query}`, { headers, key });
      assert.equal(answer.status, status, `${query} ${JSON.stringify(headers)}`);
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
      assert.equal(typeof answer.body.detail, 'string');
    }
    const reader = await open(service, `topic=refused&after=${cursorsOf('refused', null)(2)}`);
    await reader.count(1);
    reader.close();
  });

  test('answers HEAD with headers only', async () => {
    const answer = await service.send('HEAD', '/feed/stream?topic=head');
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get('content-type') ?? '', /^text\/event-stream/);
  });

  test('releases its resources when the reader disconnects', async () => {
    await untilMetric(service, 'longshore_feed_readers', 0);
    const readers = await Promise.all(Array.from({ length: 5 }, () => open(service, 'topic=left')));
    const poll = new AbortController();
    const waiting = fetch(`${service.url}/feed?topic=left&wait=30`, {
      headers: { 'X-API-Key': KEYS.client },
      signal: poll.signal,
    }).catch(() => undefined);
    await untilMetric(service, 'longshore_feed_readers', 6);
    for (const reader of readers) reader.close();
    poll.abort();
    await waiting;
    await untilMetric(service, 'longshore_feed_readers', 0);
  });

  test('stays open while its database connections are terminated, and misses no event', async () => {
    const id = await createRun(service.send, 'cut');
    const reader = await open(service, 'topic=cut');
    for (let n = 0; n < 5; n += 1) {
      await service.database.dataSource.query(
        `select pg_terminate_backend(pid)
           from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()`,
      );
      const deadline = performance.now() + 120_000;
      while ((await note(service.send, id, n)) !== 204) assert.ok(performance.now() < deadline);
      await reader.until(() => messages(reader).includes(n), `event ${n}`);
    }
    assert.equal(reader.ended, undefined);
    const page = (await service.send('GET', '/feed?topic=cut')).body.events;
    assert.deepEqual(
      reader.events.map(({ data }) => data),
      page,
    );
    reader.close();
  });

  test('ends at once and cleanly when the service drains', async () => {
    const own = await startTestApp({ database: service.database });
    const reader = await open(own, 'topic=drained');
    await own.app.get(Drain).begin(UNLIMITED);
    await reader.end();
    assert.equal(reader.ended, 'whole');
    await own.close();
  });

  test('does not keep an application open that closes without a drain', async () => {
    const own = await startTestApp({ database: service.database });
    const reader = await open(own, 'topic=closed');
    await own.close();
    await reader.end();
  });
});

describe('GET /feed/stream within its limits', () => {
  test('sends a comment every 15 seconds', () => {
    assert.equal(DEFAULT_FEED_LIMITS.commentMs, 15_000);
  });

  test('never sends a comment inside an event, however often comments and events race', async () => {
    const service = await startFeedApp({ limits: { commentMs: 1, streamBytes: 1 } });
    const reader = await open(service, 'topic=racing');
    const id = await createRun(service.send, 'racing');
    /** Comments that were received between two events. */
    const between = (): number =>
      reader.eventsBeforeComments.filter((n) => n > 0 && n < reader.events.length).length;
    // Some events are larger than a socket's buffer, so that they are sent in pieces.
    for (let n = 0; n < 40 || between() < 20; n += 1) {
      assert.ok(n < 2_000, 'no comments between events');
      assert.equal(await note(service.send, id, n, { text: 'x'.repeat(n % 8 === 0 ? 200_000 : 10) }), 204);
    }
    // The reader fails on a block that is neither a whole event nor a comment alone.
    const page = (await service.send('GET', '/feed?topic=racing&limit=500')).body;
    await reader.until(() => reader.lastId === page.next_cursor, 'the last event');
    assert.equal(page.has_more, false);
    assert.deepEqual(
      reader.events.map(({ data }) => data),
      page.events,
    );
    reader.close();
    await service.close();
  });

  test('disconnects a reader that accepts nothing for too long; it resumes without loss or repeat', async () => {
    const service = await startFeedApp({ env: { SERVICE_WRITE_TIMEOUT: '0.3' } });
    const id = await createRun(service.send, 'slow');
    const big = 'x'.repeat(900_000);
    const reader = await open(service, 'topic=slow');
    reader.pause();
    for (let n = 0; n < 24; n += 1) assert.equal(await note(service.send, id, n, { big }), 204);
    await untilMetric(service, 'longshore_feed_stalled_streams_total', 1);
    await untilMetric(service, 'longshore_feed_readers', 0);
    reader.resume();
    await reader.end();
    assert.equal(reader.ended, 'broken');
    assert.ok(reader.events.length < 24);
    const headers: Record<string, string> =
      reader.lastId === undefined ? {} : { 'Last-Event-ID': reader.lastId };
    const resumed = await open(service, 'topic=slow', { headers });
    await resumed.until(() => resumed.events.at(-1)?.data.msg === 23, 'the last event');
    assert.deepEqual(
      [...messages(reader), ...messages(resumed)],
      Array.from({ length: 24 }, (_, n) => n),
    );
    resumed.close();
    await service.close();
  });

  test('does not wait for a slow reader when the service drains', async () => {
    const service = await startFeedApp({ env: { SERVICE_WRITE_TIMEOUT: '3600' } });
    const id = await createRun(service.send, 'stuck');
    const reader = await open(service, 'topic=stuck');
    reader.pause();
    for (let n = 0; n < 24; n += 1) await note(service.send, id, n, { big: 'x'.repeat(900_000) });
    await service.app.get(Drain).begin(UNLIMITED);
    reader.close();
    await service.close();
  });

  test('ends a stream that retention has overtaken; resuming returns 410', async () => {
    const service = await startFeedApp({ limits: {} });
    const id = await createRun(service.send, 'overtaken');
    const reader = await open(service, 'topic=overtaken');
    reader.pause();
    for (let n = 0; n < 24; n += 1) await note(service.send, id, n, { big: 'x'.repeat(900_000) });
    await service.dataSource.query(
      `with d as (delete from feed_entries where topic = 'overtaken' and position < 24)
       update feed_topics set first_position = 24 where topic = 'overtaken'`,
    );
    reader.resume();
    await reader.end();
    assert.equal(reader.ended, 'whole');
    assert.ok(reader.events.length < 23);
    const resumed = await service.send('GET', '/feed/stream?topic=overtaken', {
      headers: { 'Last-Event-ID': reader.lastId ?? '' },
    });
    assert.equal(resumed.status, 410);
    // Otherwise a browser would answer the next request from its cache, with any id.
    assert.equal(resumed.headers.get('cache-control'), 'no-store');
    assert.ok(resumed.body.detail.includes(cursorsOf('overtaken', null)(23)));
    await service.close();
  });

  test('limits the number of streams and polls together', async () => {
    const service = await startFeedApp({ env: { SERVICE_READERS: '2' } });
    const readers = [await open(service, 'topic=full'), await open(service, 'topic=full')];
    for (const path of ['/feed/stream?topic=full', '/feed?topic=full&wait=1']) {
      const refused = await service.send('GET', path);
      assert.equal(refused.status, 503);
      assert.deepEqual(refused.body, {
        detail: 'Too many streams and waiting polls of feeds: at most 2 (SERVICE_READERS)',
      });
      assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    }
    assert.equal((await service.send('GET', '/feed?topic=full')).status, 200);
    readers[0]?.close();
    await untilMetric(service, 'longshore_feed_readers', 1);
    assert.equal((await service.send('GET', '/feed?topic=full&wait=1')).status, 200);
    readers[1]?.close();
    await service.close();
  });
});

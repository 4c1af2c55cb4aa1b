import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { FeedRetention } from '../../../src/feed/feed-retention.js';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const DAY_MS = 86_400_000;

describe('section 4: the feed of a topic', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  /** A topic with so many events of one run; answers the run's id. */
  const fill = async (topic: string, events: number): Promise<string> => {
    const { id } = await steps.create({ event_delivery: { topic } });
    for (let i = 0; i < events; i += 1) await steps.event(id, 'NOTE', {}, i);
    return id;
  };
  const get = (query: string): Promise<TestAnswer> => service.send('GET', `/feed?${query}`);
  const page = async (query: string): Promise<Json> => {
    const { status, body, text } = await get(query);
    assert.equal(status, 200, text);
    return body;
  };

  describe('as specified', () => {
    test('every event of a run with a topic is on its feed, oldest first', async () => {
      const { id } = await steps.running({ event_delivery: { topic: 'whole' } });
      await steps.event(id, 'PROGRESS', undefined, 5);
      await steps.event(id, 'COMPLETED');
      await service.send('POST', `/runs/${id}/retry`);
      await service.send('POST', `/runs/${id}/cancel`);
      const { events } = await page('topic=whole');
      assert.deepEqual(
        events.map(({ type }: Json) => type),
        ['STARTED', 'PROGRESS', 'COMPLETED', 'RETRIED', 'CANCELLED'],
      );
    });

    test('a run without a topic, or with another, is not on it', async () => {
      const { id } = await steps.create();
      await steps.note(id);
      await fill('other', 1);
      assert.deepEqual((await page('topic=mine')).events, []);
    });

    test('a reader goes on behind next_cursor, page by page, and sees each event once', async () => {
      await fill('paged', 7);
      const seen = [];
      let query = 'topic=paged&limit=3';
      for (let pages = 0; pages < 3; pages += 1) {
        const found = await page(query);
        seen.push(...messages(found));
        assert.equal(found.has_more, pages < 2);
        query = `topic=paged&limit=3&after=${found.next_cursor}`;
      }
      assert.deepEqual(seen, [0, 1, 2, 3, 4, 5, 6]);
    });

    test('next_cursor is null on a page without events', async () => {
      await fill('tail', 1);
      const { next_cursor: cursor } = await page('topic=tail');
      const empty = { events: [], next_cursor: null, has_more: false };
      assert.deepEqual(await page(`topic=tail&after=${cursor}`), empty);
    });

    test('a page holds 100 events unless asked otherwise, and 1 to 500 when asked', async () => {
      const { id } = await steps.create({ event_delivery: { topic: 'long' } });
      await Promise.all(Array.from({ length: 510 }, () => steps.note(id)));
      assert.equal((await page('topic=long')).events.length, 100);
      assert.equal((await page('topic=long&limit=1')).events.length, 1);
      assert.equal((await page('topic=long&limit=500')).events.length, 500);
      for (const limit of ['0', '501', 'x']) {
        assertInvalid(await get(`topic=long&limit=${limit}`), ['limit must be an integer from 1 to 500']);
      }
    });

    test('a topic has to be given', async () => {
      assertInvalid(await get('limit=1'), ['topic is required']);
    });

    test('a malformed cursor is an error', async () => {
      assertError(await get('topic=t&after=nonsense'), 400, 'Malformed cursor');
    });

    test('a feed that is not configured is an error', async () => {
      const off = await startTestApp({ database: service.database, env: { SERVICE_FEED_ENABLED: 'false' } });
      for (const path of ['/feed?topic=t', '/feed/stream?topic=t']) {
        assertError(await off.send('GET', path), 503, 'Event feed is not configured');
      }
      await off.close();
    });
  });

  describe('as settled', () => {
    test('the state of an event is the run’s after the commit that recorded it', async () => {
      const { id } = await steps.running({
        event_delivery: { topic: 'states' },
        retry_policy: { max_attempts: 2 },
      });
      await steps.event(id, 'FAILED');
      await service.send('POST', `/runs/${id}/cancel`);
      assert.deepEqual(
        (await page('topic=states')).events.map(({ type, state, attempt }: Json) => [type, state, attempt]),
        [
          ['STARTED', 'RUNNING', 1],
          ['FAILED', 'PENDING', 1],
          ['RETRIED', 'PENDING', 1],
          ['CANCELLED', 'CANCELLED', 2],
        ],
      );
    });

    test('a cursor of another topic is refused', async () => {
      await fill('own', 1);
      const { next_cursor: cursor } = await page('topic=own');
      assertError(
        await get(`topic=else&after=${cursor}`),
        400,
        'The cursor belongs to the feed of another topic',
      );
    });

    test('a topic that nobody has used is an empty page', async () => {
      assert.deepEqual(await page('topic=unused'), { events: [], next_cursor: null, has_more: false });
    });

    test('an empty page waits as long as it is asked to, and for an event that arrives', async () => {
      const id = await fill('awaited', 1);
      const { next_cursor: cursor } = await page('topic=awaited');
      const empty = page(`topic=awaited&after=${cursor}&wait=1`);
      while (service.app.get(HeldRequests).size === 0) await sleep(1);
      assert.deepEqual((await empty).events, []);
      const waiting = page(`topic=awaited&after=${cursor}&wait=30`);
      await steps.event(id, 'NOTE', {}, 'arrived');
      assert.deepEqual(messages(await waiting), ['arrived']);
      for (const wait of ['-1', '31', 'x']) {
        assertInvalid(await get(`topic=awaited&wait=${wait}`), ['wait must be an integer from 0 to 30']);
      }
    });

    test('a cursor behind what retention removed is gone, and the detail names one that works', async () => {
      const id = await fill('expired', 3);
      const { next_cursor: cursor } = await page('topic=expired&limit=1');
      await service.app.get(FeedRetention).runOnce(new Date(Date.now() + 8 * DAY_MS));
      await steps.event(id, 'NOTE', {}, 'young');
      const gone = await get(`topic=expired&after=${cursor}`);
      assert.equal(gone.status, 410);
      const oldest = /'([^']+)'$/.exec(gone.body.detail)?.[1];
      assert.deepEqual(messages(await page(`topic=expired&after=${oldest}`)), ['young']);
      assert.equal((await service.send('GET', `/feed/stream?topic=expired&after=${cursor}`)).status, 410);
      // Without a cursor the feed begins with what is kept.
      assert.deepEqual(messages(await page('topic=expired')), ['young']);
    });

    test('the stream sends the same events as Server-Sent Events, each with its cursor as id, and no name', async () => {
      const id = await fill('streamed', 2);
      const reader = await EventStreamReader.open(service.url, '/feed/stream?topic=streamed');
      await reader.count(2);
      await steps.event(id, 'NOTE', {}, 'live');
      await reader.count(3);
      reader.close();
      const { events } = await page('topic=streamed');
      assert.deepEqual(
        reader.events.map(({ data }) => data),
        events,
      );
      assert.deepEqual(
        reader.events.map((event) => event.id),
        events.map(({ cursor }: Json) => cursor),
      );
    });

    test('the stream goes on behind `after`, and Last-Event-ID wins over it', async () => {
      await fill('resumed', 4);
      const { events } = await page('topic=resumed');
      const path = `/feed/stream?topic=resumed&after=${events[0].cursor}`;
      const plain = await EventStreamReader.open(service.url, path);
      await plain.count(3);
      plain.close();
      assert.deepEqual(
        plain.events.map(({ data }) => data.msg),
        [1, 2, 3],
      );
      const resumed = await EventStreamReader.open(service.url, path, {
        headers: { 'Last-Event-ID': events[2].cursor },
      });
      await resumed.count(1);
      resumed.close();
      assert.deepEqual(
        resumed.events.map(({ data }) => data.msg),
        [3],
      );
    });
  });
});

function messages({ events }: Json): unknown[] {
  return events.map(({ msg }: Json) => msg);
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;

import assert from 'node:assert/strict';
import { describe, test, vi } from 'vitest';
import { isDeepStrictEqual } from 'node:util';
import { FeedTails } from '../../../src/feed/cache/feed-tails.js';
import { decodeCursor } from '../../../src/feed/feed-cursors.js';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { createRun, note, startFeedApp } from '../../support/app/feed-app.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';

const statements = logStatements();

/** How many statements have read events of feeds. */
function reads(): number {
  return statements.filter((sql) => /from feed_topics t\b/.test(sql)).length;
}

describe('the cache of the newest events of feeds', () => {
  test('a hundred readers of one topic cost one read of a commit at most', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const run = await createRun(service.send, 'busy');
    const streams = await Promise.all(
      Array.from({ length: 50 }, () => EventStreamReader.open(service.url, '/feed/stream?topic=busy')),
    );
    let after = '';
    statements.length = 0;
    for (let n = 1; n <= 10; n += 1) {
      const polls = Array.from({ length: 50 }, () => service.send('GET', `/feed?topic=busy&wait=30${after}`));
      assert.equal(await note(service.send, run, n), 204);
      for (const { body } of await Promise.all(polls)) {
        assert.deepEqual(
          body.events.map(({ msg }: { msg: number }) => msg),
          [n],
        );
        after = `&after=${body.next_cursor}`;
      }
      for (const stream of streams) await stream.count(n);
    }
    // One more for the first read of the topic.
    assert.ok(reads() <= 11, `${reads()} reads of 10 commits`);
    for (const stream of streams) stream.close();
    await service.close();
  });

  test('a page of cached events costs one statement, which reads the bounds of the feed', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const run = await createRun(service.send, 'read');
    for (let n = 0; n < 5; n += 1) await note(service.send, run, n);
    const page = (): Promise<string[]> =>
      service
        .send('GET', '/feed?topic=read')
        .then(({ body }) => body.events.map(({ msg }: { msg: number }) => msg));
    await page();
    await note(service.send, run, 5);
    statements.length = 0;
    assert.deepEqual(await page(), [0, 1, 2, 3, 4, 5]);
    assert.equal(statements.length, 1, statements.join('\n'));
    assert.match(statements[0] ?? '', /first_position/);
    await service.close();
  });

  test('shows the events of runs with large attributes, in their order among those of others', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const create = async (attributes: object): Promise<string> => {
      const body = { image: 'image', event_delivery: { topic: 'labelled', attributes } };
      return (await service.send('POST', '/runs', { body })).body.id;
    };
    const page = async (): Promise<[msg: unknown, attributes: unknown][]> => {
      const { body } = await service.send('GET', '/feed?topic=labelled');
      return body.events.map(({ msg, attributes }: { msg: number; attributes: object }) => [msg, attributes]);
    };
    const large = { tenant: 'x'.repeat(100_000) };
    const labels = [{ tenant: 'a' }, large, {}];
    const runs = await Promise.all(labels.map(create));
    await page();
    for (let n = 0; n < 3; n += 1) {
      for (const run of runs) await note(service.send, run, n);
      await Promise.all(runs.map((run) => note(service.send, run, 'together')));
      const found = await page();
      assert.deepEqual(
        found.filter(([msg]) => msg === n),
        labels.map((attributes) => [n, attributes]),
      );
      for (const label of labels) {
        const same = found.filter((shown) => isDeepStrictEqual(shown, ['together', label]));
        assert.equal(same.length, n + 1);
      }
    }
    await service.close();
  });

  test('that fails does not affect commands, which are committed before', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const runs = await Promise.all(
      ['broken', 'broken', 'broken'].map((topic) => createRun(service.send, topic)),
    );
    const page = async (): Promise<number[]> => {
      const { body } = await service.send('GET', '/feed?topic=broken');
      return body.events.map(({ msg }: { msg: number }) => msg);
    };
    const postAll = (first: number): Promise<number[]> =>
      Promise.all(runs.map((run, n) => note(service.send, run, first + n)));
    await page();
    const append = vi.spyOn(service.app.get(FeedTails), 'append').mockImplementation(() => {
      throw new Error('out of memory');
    });
    assert.deepEqual(await postAll(0), [204, 204, 204]);
    append.mockRestore();
    assert.deepEqual(await postAll(3), [204, 204, 204]);
    assert.deepEqual(
      (await page()).toSorted((a, b) => a - b),
      [0, 1, 2, 3, 4, 5],
    );
    await service.close();
  });

  test('shows a feed whose entries or events were removed by hand, page by page and as a stream', async () => {
    const service = await startTestApp({ env: { SERVICE_REAPER_INTERVAL: '3600' } });
    const run = await createRun(service.send, 'holes');
    for (let n = 1; n <= 20; n += 1) await note(service.send, run, n);
    await service.dataSource.query(`delete from events where index between 4 and 14 and msg::text <> '7'`);
    await service.dataSource.query(`delete from feed_entries where position in (2, 18, 19, 20)`);
    const whole = [1, 3, 4, 7, 16, 17];
    for (const limit of [1, 2, 3, 5, 100]) {
      const shown: number[] = [];
      for (let after = '', hasMore = true; hasMore;) {
        const { body } = await service.send('GET', `/feed?topic=holes&limit=${limit}${after}`);
        shown.push(...body.events.map(({ msg }: { msg: number }) => msg));
        hasMore = body.has_more && shown.length < 100;
        after = `&after=${body.next_cursor}`;
      }
      assert.deepEqual(shown, whole);
    }
    const stream = await EventStreamReader.open(service.url, '/feed/stream?topic=holes');
    await stream.count(whole.length);
    statements.length = 0;
    await note(service.send, run, 21);
    await stream.count(whole.length + 1);
    assert.ok(reads() <= 1, `${reads()} reads`);
    stream.close();
    await service.close();
  });

  test('shows what another process has acknowledged, at dense positions, also when events leave the cache', async () => {
    const database = await openTestDatabase();
    const limits = { cacheBytes: 40_000, cacheTopicBytes: 20_000 };
    const apps = await Promise.all([1, 2].map(() => startFeedApp({ database, limits })));
    const topic = 'shared';
    const writers = Array.from({ length: 6 }, async (_, writer) => {
      const [own, other] = writer % 2 === 0 ? apps : apps.toReversed();
      assert.ok(own && other);
      const run = await createRun(own.send, topic);
      let after: string = '';
      for (let n = 0; n < 15; n += 1) {
        assert.equal(await note(own.send, run, `${writer} ${n}`), 204);
        const path = `/feed?topic=${topic}&limit=500${after}`;
        const page: TestAnswer = await other.send('GET', path);
        const { status, body } = page;
        assert.equal(status, 200);
        const msgs: string[] = body.events.map(({ msg }: { msg: string }) => msg);
        assert.ok(msgs.includes(`${writer} ${n}`), `${writer} ${n} is not in ${msgs.join()}`);
        after = `&after=${body.next_cursor}`;
      }
    });
    await Promise.all(writers);
    for (const { send } of apps) {
      const { body } = await send('GET', `/feed?topic=${topic}&limit=500`);
      const positions = body.events.map(
        ({ cursor }: { cursor: string }) => decodeCursor(topic, cursor)?.position,
      );
      assert.deepEqual(
        positions,
        Array.from({ length: 6 * 15 }, (_, n) => n + 1),
      );
    }
    for (const app of apps) await app.close();
    await database.close();
  });
});

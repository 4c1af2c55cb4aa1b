import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { Registry } from 'prom-client';
import type { EntityManager } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import { FeedMetrics } from '../../../src/feed/feed-metrics.js';
import { FeedRepository } from '../../../src/feed/feed.repository.js';
import { FeedRetention } from '../../../src/feed/feed-retention.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const DAY = 86_400_000;
const NOW = new Date('2026-06-15T12:00:00.000Z');

/** Appends one entry per age, given in days before NOW, in this order. */
function appendBy(
  manager: EntityManager,
  topic: string,
  ages: readonly number[],
): Promise<ReadonlyMap<string, number>> {
  return new FeedRepository({ feedEnabled: true }).append(
    manager,
    ages.map((age, eventIndex) => ({
      topic,
      runId: uuidv7(),
      eventIndex,
      recordedAt: new Date(NOW.getTime() - age * DAY),
    })),
  );
}

describe('retention of the feed', () => {
  const database = useTestDatabase();

  afterEach(() => database.dataSource.query('truncate feed_entries, feed_topics'));

  const retention = (days = 7, source = database.dataSource, runDays = 0): FeedRetention =>
    new FeedRetention(
      source,
      loadSettings([], {
        SERVICE_FEED_RETENTION_DAYS: String(days),
        SERVICE_RUN_RETENTION_DAYS: String(runDays),
      }),
      new FeedMetrics(new Registry()),
    );

  const append = (topic: string, ages: readonly number[]): Promise<ReadonlyMap<string, number>> =>
    database.dataSource.transaction((manager) => appendBy(manager, topic, ages));

  /** Waits until a statement waits for a lock. */
  const untilBlocked = async (): Promise<void> => {
    const waiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    while ((await database.dataSource.query<object[]>(waiting)).length === 0);
  };

  /** What a feed has. The topic knows the time of its oldest entry. */
  const kept = async (topic: string): Promise<{ first: number; positions: number[] }> => {
    const [head] = await database.dataSource.query<{ first: string; oldest: Date | null }[]>(
      'select first_position as first, oldest_at as oldest from feed_topics where topic = $1',
      [topic],
    );
    const entries = await database.dataSource.query<{ position: string; at: Date }[]>(
      'select position, recorded_at as at from feed_entries where topic = $1 order by position',
      [topic],
    );
    assert.deepEqual(head?.oldest, entries[0]?.at ?? null);
    return { first: Number(head?.first), positions: entries.map(({ position }) => Number(position)) };
  };

  test('removes entries older than the retention time, to the millisecond, and moves the first position', async () => {
    const ms = 1 / DAY;
    await append('a', [9, 8, 7 + ms, 7, 7 - ms, 0]);
    await append('young', [1]);
    await append('old', [10, 9]);
    assert.deepEqual(await retention().runOnce(NOW), { entries: 5 });
    assert.deepEqual(await kept('a'), { first: 4, positions: [4, 5, 6] });
    assert.deepEqual(await kept('young'), { first: 1, positions: [1] });
    assert.deepEqual(await kept('old'), { first: 3, positions: [] });
    assert.deepEqual(await retention().runOnce(NOW), { entries: 0 });
    await append('old', [0, 1]);
    assert.deepEqual(await kept('old'), { first: 3, positions: [3, 4] });
    assert.deepEqual(await retention().runOnce(new Date(NOW.getTime() + 8 * DAY)), { entries: 6 });
    assert.deepEqual(await kept('old'), { first: 5, positions: [] });
  });

  test('makes up for heads that were removed by hand', async () => {
    await append('a', [9, 8, 1]);
    await append('b', [9, 1]);
    await append('c', [9]);
    await database.dataSource.query('delete from feed_entries where position = 1');
    assert.deepEqual(await retention().runOnce(NOW), { entries: 1 });
    assert.deepEqual(await kept('a'), { first: 3, positions: [3] });
    assert.deepEqual(await kept('b'), { first: 2, positions: [2] });
    assert.deepEqual(await kept('c'), { first: 1, positions: [] });
  });

  test('knows the oldest entry of a feed that gets one while all others are removed', async () => {
    await append('a', [9, 8]);
    const { pass } = await database.dataSource.transaction(async (manager) => {
      await appendBy(manager, 'a', [1, 0]);
      const begun = retention().runOnce(NOW);
      await untilBlocked();
      return { pass: begun };
    });
    assert.deepEqual(await pass, { entries: 2 });
    assert.deepEqual(await kept('a'), { first: 3, positions: [3, 4] });
  });

  test('an append to a feed with entries writes no index of its topic', async () => {
    const source = await database.open(1);
    await source.transaction(async (manager) => {
      await appendBy(manager, 'a', [2]);
      await appendBy(manager, 'a', [1]);
      const [counts] = await manager.query(
        `select pg_stat_get_xact_tuples_updated(oid)::integer as updated,
                pg_stat_get_xact_tuples_hot_updated(oid)::integer as hot
           from pg_class where relname = 'feed_topics'`,
      );
      assert.deepEqual(counts, { updated: 1, hot: 1 });
    });
  });

  test('keeps everything if retention is switched off', async () => {
    await append('a', [1000]);
    assert.deepEqual(await retention(0).runOnce(NOW), { entries: 0 });
    assert.deepEqual(await kept('a'), { first: 1, positions: [1] });
  });

  test('without a retention of feeds, removes what is older than the retention of runs', async () => {
    await append('a', [9, 4, 2]);
    assert.deepEqual(await retention(0, database.dataSource, 3).runOnce(NOW), { entries: 2 });
    assert.deepEqual(await kept('a'), { first: 3, positions: [3] });
    // A retention of feeds holds beside a shorter one of runs.
    assert.deepEqual(await retention(7, database.dataSource, 1).runOnce(NOW), { entries: 0 });
  });

  test('removes heads only: an older entry behind a younger one is kept, so that no feed has a gap', async () => {
    await append('a', [9, 6, 9, 9, 0]);
    assert.deepEqual(await retention().runOnce(NOW), { entries: 1 });
    assert.deepEqual(await kept('a'), { first: 2, positions: [2, 3, 4, 5] });
    assert.deepEqual(await retention().runOnce(new Date(NOW.getTime() + 2 * DAY)), { entries: 3 });
    assert.deepEqual(await kept('a'), { first: 5, positions: [5] });
  });

  test('removes any number in batches, past entries that cannot be removed yet', async () => {
    // More of them than a batch holds, all older than the rest.
    await append('waiting', [1, ...Array.from({ length: 1200 }, (_, n) => 30 + (n % 50) / 1000)]);
    for (let topic = 0; topic < 150; topic += 1) await append(`t${topic}`, Array(16).fill(10));
    assert.deepEqual(await retention().runOnce(NOW), { entries: 2400 });
    for (let topic = 0; topic < 150; topic += 1) {
      assert.deepEqual(await kept(`t${topic}`), { first: 17, positions: [] });
    }
    assert.equal((await kept('waiting')).first, 1);
  });

  test('stops between two batches when its signal aborts', async () => {
    await append('a', Array(1200).fill(10));
    const stop = new AbortController();
    const pass = retention().runOnce(NOW, stop.signal);
    stop.abort();
    const { entries } = await pass;
    assert.ok(entries <= 500, `${entries}`);
    assert.equal((await kept('a')).positions.length, 1200 - entries);
  });

  test('runs in several processes beside writers: no event is lost, no transaction fails', async () => {
    const sources = [await database.open(), await database.open()];
    const topics = ['a', 'b', 'c', 'd'];
    for (const topic of topics) await append(topic, Array(800).fill(10));
    const done = new AbortController();
    let written = 0;
    const writer = async (reverse: boolean): Promise<void> => {
      const order = reverse ? topics.toReversed() : topics;
      while (!done.signal.aborted) {
        await database.dataSource.transaction((manager) =>
          new FeedRepository({ feedEnabled: true }).append(
            manager,
            order.map((topic) => ({ topic, runId: uuidv7(), eventIndex: 0, recordedAt: NOW })),
          ),
        );
        written += 1;
      }
    };
    const writers = [writer(false), writer(true)];
    let removed = 0;
    while (removed < 3200) {
      const passes = await Promise.all(sources.map((source) => retention(7, source).runOnce(NOW)));
      for (const { entries } of passes) removed += entries;
    }
    done.abort();
    await Promise.all(writers);
    assert.equal(removed, 3200);
    for (const topic of topics) {
      assert.deepEqual(await kept(topic), {
        first: 801,
        positions: Array.from({ length: written }, (_, n) => 801 + n),
      });
    }
  });
});

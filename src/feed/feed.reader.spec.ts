import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { FeedEpochStartEntity } from '../database/entities/feed.entity.js';
import { FeedCursors } from './feed-cursors.js';
import { encodeCursor } from './feed-cursor.fixtures.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedCursorGone, FeedCursorInvalid } from './feed.errors.js';
import { DEFAULT_FEED_LIMITS, FeedReader } from './feed.reader.js';
import { FeedRepository, type FeedRange, type FeedRows } from './feed.repository.js';

const RANGE: FeedRange = { topic: 'a', after: 3, epoch: null, limit: 10, maxBytes: 1000 };

/** A repository whose queries the test answers. */
class HeldRepository extends FeedRepository {
  readonly asked: { range: FeedRange; answer: (rows: FeedRows) => void; fail: (error: Error) => void }[] = [];

  constructor() {
    super({ feedEnabled: true });
  }

  override list(_: unknown, range: FeedRange): Promise<FeedRows> {
    return new Promise((answer, fail) => {
      this.asked.push({ range, answer, fail });
    });
  }
}

function setUp(maxQueries = 4) {
  const repository = new HeldRepository();
  const dataSource = new DataSource({ type: 'postgres' });
  const reader = new FeedReader(
    dataSource,
    repository,
    new FeedMetrics(new Registry()),
    new FeedCursors(dataSource.getRepository(FeedEpochStartEntity), repository),
    { ...DEFAULT_FEED_LIMITS, maxQueries },
  );
  return { reader, asked: repository.asked };
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const EMPTY: FeedRows = { first: 1, last: 3, entries: [], hasMore: false };

test('a thousand readers that wake together share one query', async () => {
  const { reader, asked } = setUp();
  const reads = Array.from({ length: 1000 }, () => reader.readShared(RANGE));
  await tick();
  assert.equal(asked.length, 1);
  asked[0]?.answer(EMPTY);
  const slices = await Promise.all(reads);
  assert.equal(new Set(slices).size, 1);
});

test('readers of another position, topic or size have their own query', async () => {
  const { reader, asked } = setUp(100);
  const ranges: FeedRange[] = [
    RANGE,
    { ...RANGE, after: 2 },
    { ...RANGE, topic: 'b' },
    { ...RANGE, limit: 11 },
    { ...RANGE, maxBytes: 1001 },
  ];
  const reads = ranges.map((range) => reader.readShared(range));
  await tick();
  assert.equal(asked.length, ranges.length);
  for (const { answer } of asked) answer(EMPTY);
  await Promise.all(reads);
});

test('a failed query fails the readers that share it, and no later one', async () => {
  const { reader, asked } = setUp();
  const reads = Promise.allSettled([reader.readShared(RANGE), reader.readShared(RANGE)]);
  await tick();
  asked[0]?.fail(new Error('unavailable'));
  assert.deepEqual(
    (await reads).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  const again = reader.readShared(RANGE);
  await tick();
  assert.equal(asked.length, 2);
  asked[1]?.answer(EMPTY);
  await again;
});

test('a read that is not shared never joins a query that began before it', async () => {
  const { reader, asked } = setUp();
  const shared = reader.readShared(RANGE);
  const own = reader.read(RANGE);
  await tick();
  assert.equal(asked.length, 2);
  for (const { answer } of asked) answer(EMPTY);
  await Promise.all([shared, own]);
});

test('limits concurrent queries and serves every reader', async () => {
  const { reader, asked } = setUp(2);
  const reads = Promise.allSettled([1, 2, 3, 4, 5].map(() => reader.read(RANGE)));
  for (let done = 0; done < 5; done += 1) {
    await tick();
    assert.equal(asked.length, Math.min(done + 2, 5));
    if (done % 2 === 0) asked[done]?.answer(EMPTY);
    else asked[done]?.fail(new Error('unavailable'));
  }
  const outcomes = await reads;
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
});

test('refuses a position behind the end or removed by retention, and accepts both ends of the stored entries', async () => {
  const { reader, asked } = setUp();
  const read = async (after: number | null) => {
    const reading = reader.read({ ...RANGE, after });
    await tick();
    asked.at(-1)?.answer({ first: 5, last: 9, entries: [], hasMore: false });
    return reading;
  };
  assert.equal((await read(9)).end, 9);
  assert.equal((await read(4)).end, 4);
  assert.equal((await read(null)).end, 4);
  await assert.rejects(read(10), FeedCursorInvalid);
  await assert.rejects(
    read(3),
    (error) => error instanceof FeedCursorGone && error.oldest === encodeCursor('a', 4),
  );
});

test('readers that arrive during a query share the next one, which begins after all of them', async () => {
  const { reader, asked } = setUp();
  const first = reader.readShared(RANGE);
  await tick();
  const late = Array.from({ length: 50 }, () => reader.readShared(RANGE));
  const elsewhere = reader.readShared({ ...RANGE, after: 2 });
  await tick();
  assert.equal(asked.length, 2, 'the first, and the one of the other place');
  asked[1]?.answer(EMPTY);
  asked[0]?.fail(new Error('unavailable'));
  await assert.rejects(first);
  await elsewhere;
  await tick();
  assert.equal(asked.length, 3);
  asked[2]?.answer({ ...EMPTY, last: 9 });
  const slices = await Promise.all(late);
  assert.equal(new Set(slices).size, 1);
  const again = reader.readShared(RANGE);
  await tick();
  assert.equal(asked.length, 4, 'a finished query is not reused');
  asked[3]?.answer(EMPTY);
  await again;
});

import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { FeedBranchEntity, FeedBranchHeadEntity } from '../database/entities/feed.entity.js';
import { FeedCursors } from './epochs/feed-cursors.js';
import { encodeCursor } from './feed-cursor.js';
import { USUAL_FEED_LIMITS } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedCursorGone, FeedCursorInvalid } from './feed.errors.js';
import { FeedReader } from './feed.reader.js';
import { FeedRepository, type FeedRange, type FeedRows } from './feed.repository.js';

const RANGE: FeedRange = { topic: 'a', after: 3, limit: 10, maxBytes: 1000 };

/** A repository that answers when the test says so. */
class HeldRepository extends FeedRepository {
  readonly asked: { range: FeedRange; answer: (rows: FeedRows) => void; fail: (error: Error) => void }[] = [];

  override list(_: unknown, range: FeedRange): Promise<FeedRows> {
    return new Promise((answer, fail) => {
      this.asked.push({ range, answer, fail });
    });
  }
}

function scene(maxQueries = 4) {
  const repository = new HeldRepository();
  const dataSource = new DataSource({ type: 'postgres' });
  const reader = new FeedReader(
    dataSource,
    repository,
    new FeedMetrics(new Registry()),
    new FeedCursors(
      dataSource.getRepository(FeedBranchEntity),
      dataSource.getRepository(FeedBranchHeadEntity),
      repository,
    ),
    { ...USUAL_FEED_LIMITS, maxQueries },
  );
  return { reader, asked: repository.asked };
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const EMPTY: FeedRows = { first: 1, last: 3, entries: [], hasMore: false };

test('a thousand readers that were woken together share one query', async () => {
  const { reader, asked } = scene();
  const reads = Array.from({ length: 1000 }, () => reader.readShared(RANGE, 1));
  await tick();
  assert.equal(asked.length, 1);
  asked[0]?.answer(EMPTY);
  const slices = await Promise.all(reads);
  assert.equal(new Set(slices).size, 1);
});

test('readers of another version, place, topic or size have a query of their own', async () => {
  const { reader, asked } = scene(100);
  const ranges: [FeedRange, number][] = [
    [RANGE, 1],
    [RANGE, 2],
    [{ ...RANGE, after: 2 }, 1],
    [{ ...RANGE, topic: 'b' }, 1],
    [{ ...RANGE, limit: 11 }, 1],
    [{ ...RANGE, maxBytes: 1001 }, 1],
  ];
  const reads = ranges.map(([range, version]) => reader.readShared(range, version));
  await tick();
  assert.equal(asked.length, ranges.length);
  for (const { answer } of asked) answer(EMPTY);
  await Promise.all(reads);
});

test('a query is shared only while it runs, and its failure by those who shared it', async () => {
  const { reader, asked } = scene();
  const reads = Promise.allSettled([reader.readShared(RANGE, 1), reader.readShared(RANGE, 1)]);
  await tick();
  asked[0]?.fail(new Error('away'));
  assert.deepEqual(
    (await reads).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  const again = reader.readShared(RANGE, 1);
  await tick();
  assert.equal(asked.length, 2);
  asked[1]?.answer(EMPTY);
  await again;
});

test('a reader of its own never joins a query that began before it asked', async () => {
  const { reader, asked } = scene();
  const shared = reader.readShared(RANGE, 1);
  const own = reader.read(RANGE);
  await tick();
  assert.equal(asked.length, 2);
  for (const { answer } of asked) answer(EMPTY);
  await Promise.all([shared, own]);
});

test('no more queries run at once than the limit, and every reader has its turn', async () => {
  const { reader, asked } = scene(2);
  const reads = Promise.allSettled([1, 2, 3, 4, 5].map(() => reader.read(RANGE)));
  for (let done = 0; done < 5; done += 1) {
    await tick();
    assert.equal(asked.length, Math.min(done + 2, 5));
    if (done % 2 === 0) asked[done]?.answer(EMPTY);
    else asked[done]?.fail(new Error('away'));
  }
  const outcomes = await reads;
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
});

test('a place beyond the end is refused, one that retention has passed is gone, both ends of what is kept work', async () => {
  const { reader, asked } = scene();
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

test('readers of one place that come while a query is under way share the next one, which begins after all of them', async () => {
  const { reader, asked } = scene();
  const first = reader.readNext(RANGE);
  await tick();
  const late = Array.from({ length: 50 }, () => reader.readNext(RANGE));
  const elsewhere = reader.readNext({ ...RANGE, after: 2 });
  await tick();
  assert.equal(asked.length, 2, 'the first, and that of the other place');
  asked[1]?.answer(EMPTY);
  asked[0]?.fail(new Error('the database is away'));
  await assert.rejects(first);
  await elsewhere;
  await tick();
  assert.equal(asked.length, 3);
  asked[2]?.answer({ ...EMPTY, last: 9 });
  const slices = await Promise.all(late);
  assert.equal(new Set(slices).size, 1);
  const again = reader.readNext(RANGE);
  await tick();
  assert.equal(asked.length, 4, 'what was read before is read anew');
  asked[3]?.answer(EMPTY);
  await again;
});

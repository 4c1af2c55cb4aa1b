import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'vitest';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { FeedEpochHeadEntity } from '../database/entities/feed.entity.js';
import { FeedTails } from './cache/feed-tails.js';
import { FeedCursors } from './feed-cursors.js';
import { DEFAULT_FEED_LIMITS } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedReader } from './feed.reader.js';
import {
  FeedRepository,
  type FeedBounds,
  type FeedEventRow,
  type FeedRange,
  type FeedRows,
} from './feed.repository.js';

const RANGE = { topic: 'a', after: 3, epoch: null, limit: 10, maxBytes: 1000 } as const;

type Asked<Q, R> = {
  readonly asked: Q;
  readonly answer: (result: R) => void;
  readonly fail: (error: Error) => void;
};

/** A repository whose queries the test answers. */
class HeldRepository extends FeedRepository {
  readonly lists: Asked<FeedRange, FeedRows>[] = [];
  readonly bounds: Asked<readonly string[], ReadonlyMap<string, FeedBounds>>[] = [];

  constructor() {
    super({ feedEnabled: true });
  }

  override list(_: unknown, asked: FeedRange): Promise<FeedRows> {
    return new Promise((answer, fail) => {
      this.lists.push({ asked, answer, fail });
    });
  }

  override findBounds(_: unknown, asked: readonly string[]): Promise<ReadonlyMap<string, FeedBounds>> {
    return new Promise((answer, fail) => {
      this.bounds.push({ asked, answer, fail });
    });
  }
}

function setUp(maxQueries = 4) {
  const repository = new HeldRepository();
  const dataSource = new DataSource({ type: 'postgres' });
  const limits = { ...DEFAULT_FEED_LIMITS, maxQueries };
  const metrics = new FeedMetrics(new Registry());
  const cursors = new FeedCursors(dataSource.getRepository(FeedEpochHeadEntity), repository, { epochs: [] });
  const tails = new FeedTails(cursors, metrics, limits);
  const reader = new FeedReader(dataSource, repository, metrics, cursors, tails, limits);
  return { reader, lists: repository.lists, bounds: repository.bounds };
}

/** Lets everything that is due run: a batch of reads begins in the next turn of the event loop. */
async function tick(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
}

const EMPTY: FeedRows = { first: 1, last: 3, end: 3, entries: [], hasMore: false };

function row(position: number): FeedEventRow {
  const [runId, t] = ['r', new Date(0)];
  return {
    position,
    runId,
    t,
    attempt: 1,
    type: 'NOTE',
    msg: '""',
    state: 'RUNNING',
    payload: '{}',
    attributes: null,
    name: null,
    labels: null,
  };
}

function boundsOf(first: number, last: number): ReadonlyMap<string, FeedBounds> {
  return new Map([['a', { first, last }]]);
}

const positions = ({ entries }: Awaited<ReturnType<FeedReader['read']>>): number[] =>
  entries.map(({ position }) => position);

test('a thousand readers that wake together share one query', async () => {
  const { reader, lists } = setUp();
  const reads = Array.from({ length: 1000 }, () => reader.readNext(RANGE, 4));
  await tick();
  assert.equal(lists.length, 1);
  lists[0]?.answer(EMPTY);
  assert.equal(new Set(await Promise.all(reads)).size, 1);
});

test('readers of another position, topic or size that is not cached have their own query', async () => {
  const { reader, lists } = setUp(100);
  const ranges = [
    RANGE,
    { ...RANGE, after: 2 },
    { ...RANGE, topic: 'b' },
    { ...RANGE, limit: 11 },
    { ...RANGE, maxBytes: 1001 },
  ];
  const reads = ranges.map((range) => reader.readNext(range, 4));
  await tick();
  assert.equal(lists.length, ranges.length);
  for (const { answer } of lists) answer(EMPTY);
  await Promise.all(reads);
});

test('concurrent pages share a query of bounds', async () => {
  const { reader, bounds, lists } = setUp();
  const topics = ['a', 'a', 'b', 'c'];
  const pages = topics.map((topic) => reader.read({ ...RANGE, topic, after: null }));
  await tick();
  assert.deepEqual(
    bounds.map(({ asked }) => asked),
    [['a', 'b', 'c']],
  );
  bounds[0]?.answer(boundsOf(1, 0));
  await tick();
  for (const { answer } of lists) answer({ ...EMPTY, last: 0, end: 0 });
  await Promise.all(pages);
});

test('a cached page does not wait for queries of other topics', async () => {
  const { reader, bounds, lists } = setUp(1);
  const first = reader.readNext({ ...RANGE, after: 0 }, 1);
  await tick();
  lists[0]?.answer({ first: 1, last: 1, end: 1, entries: [row(1)], hasMore: false });
  await first;
  const other = reader.readNext({ ...RANGE, topic: 'b' }, 4);
  await tick();
  const page = reader.read({ ...RANGE, after: null });
  await tick();
  bounds[0]?.answer(boundsOf(1, 1));
  await tick();
  assert.deepEqual(await Promise.race([page.then(positions), tick()]), [1]);
  lists[1]?.answer(EMPTY);
  await other;
});

test('limits concurrent queries and serves every reader', async () => {
  const { reader, lists } = setUp(2);
  const reads = Promise.allSettled([1, 2, 3, 4, 5].map((after) => reader.readNext({ ...RANGE, after }, 6)));
  for (let done = 0; done < 5; done += 1) {
    await tick();
    assert.equal(lists.length, Math.min(done + 2, 5));
    if (done % 2 === 0) lists[done]?.answer({ ...EMPTY, last: 6, end: 6 });
    else lists[done]?.fail(new Error('unavailable'));
  }
  const outcomes = await reads;
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
});

import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { jsonText } from '@longshore/common/json/json-text';
import { readJson } from '@longshore/common/json/read-json';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { cursorsOf } from '../feed-cursors.js';
import { FeedMetrics } from '../feed-metrics.js';
import { FeedEntry, type FeedEvent } from './feed-tail.js';
import { FeedTails } from './feed-tails.js';

const TOPICS = ['a', 'b', 'c'] as const;
const TOPIC_BYTES = 6_000;
const ALL_BYTES = 14_000;

function eventOf(epoch: string, position: number, size: number): FeedEvent {
  const payload = JSON.stringify({ epoch, position, filler: 'x'.repeat(size) });
  return {
    runId: 'r',
    attempt: 1,
    type: 'NOTE',
    msg: '1',
    t: new Date(0),
    state: 'RUNNING',
    payload,
    attributes: null,
    name: null,
    labels: null,
  };
}

/** The feeds as the database has them, and the cache of one process. */
class Scene {
  epoch = 'epoch000';
  /** Undefined: a position whose row was removed by hand. */
  readonly feeds = new Map<string, (FeedEvent | undefined)[]>(TOPICS.map((topic) => [topic, []]));
  readonly tails = new FeedTails(this, new FeedMetrics(new Registry()), {
    cacheBytes: ALL_BYTES,
    cacheTopicBytes: TOPIC_BYTES,
  });

  of(topic: string): (position: number) => string {
    return cursorsOf(topic, this.epoch);
  }

  feed(topic: string): (FeedEvent | undefined)[] {
    const feed = this.feeds.get(topic);
    assert.ok(feed);
    return feed;
  }

  /** Commits events. @param isOwn whether by this process, which adds them to the cache */
  commit(topic: string, count: number, size: number, isOwn: boolean): void {
    const feed = this.feed(topic);
    const first = feed.length + 1;
    const events = Array.from({ length: count }, (_, n) => eventOf(this.epoch, first + n, size));
    feed.push(...events);
    if (!isOwn) return;
    const heads = new Map([[topic, feed.length]]);
    this.tails.append(this.epoch, heads, () => new Map([[topic, events]]));
  }

  /** Events that another process commits and that are removed by hand. */
  commitHole(topic: string, count: number): void {
    this.feed(topic).push(...Array.from({ length: count }, () => undefined));
  }

  /** The events behind a position. */
  list(topic: string, start: number): { readonly position: number; readonly event: FeedEvent }[] {
    return this.feed(topic).flatMap((event, n) => (n < start || !event ? [] : [{ position: n + 1, event }]));
  }

  /** Reads from the database as a reader does that the cache could not serve. */
  query(topic: string, start: number, limit: number, epoch = this.epoch): void {
    const feed = this.feed(topic);
    const toCursor = cursorsOf(topic, this.epoch);
    const found = this.list(topic, start);
    const entries = found
      .slice(0, limit)
      .map(({ position, event }) => new FeedEntry(position, event, toCursor));
    const to = found.length > limit ? (entries.at(-1)?.position ?? start) : feed.length;
    this.tails.add(epoch, topic, { from: start, to, entries }, feed.length);
  }

  /** Checks a read of the cache against the feed. @returns whether it was served */
  check(topic: string, start: number, limit: number, maxBytes: number): boolean {
    const feed = this.feed(topic);
    const slice = this.tails.read({ topic, start, last: feed.length, limit, maxBytes });
    if (slice === undefined) return false;
    const cached = this.tails.find(topic);
    assert.ok(cached && cached.from <= start && cached.to <= feed.length);
    assert.equal(slice.epoch, this.epoch);
    assert.equal(slice.hasMore, slice.end < feed.length);
    assert.ok(slice.entries.length <= limit);
    const behind = this.list(topic, start);
    const expected = behind.slice(0, slice.entries.length);
    const next = behind[slice.entries.length]?.position ?? Infinity;
    assert.ok(slice.end >= (expected.at(-1)?.position ?? start) && slice.end < next);
    const { events } = JSON.parse(slice.page.toString());
    assert.deepEqual(
      events.map(({ payload }: { payload: unknown }) => payload),
      expected.map(({ event }) => JSON.parse(event.payload)),
    );
    assert.deepEqual(
      events.map(({ cursor }: { cursor: string }) => cursor),
      expected.map(({ position }) => cursorsOf(topic, this.epoch)(position)),
    );
    const bytes = slice.entries.slice(0, -1).reduce((sum, entry) => sum + entry.bytes, 0);
    assert.ok(slice.entries.length <= 1 || bytes < maxBytes);
    const isCut = slice.entries.length === limit || bytes + (slice.entries.at(-1)?.bytes ?? 0) >= maxBytes;
    assert.ok(isCut || slice.end === cached.to, 'it ends early only where the cache ends');
    return true;
  }

  /** A database with the first events of each feed, in which others follow. */
  beginEpoch(kept: number): void {
    this.epoch = `epoch${String(Number(this.epoch.slice(-3)) + 1).padStart(3, '0')}`;
    for (const feed of this.feeds.values()) feed.splice(Math.floor(feed.length * kept));
  }
}

type Step = (scene: Scene) => void;

const topics = fc.constantFrom(...TOPICS);
const places = fc.double({ min: 0, max: 1, noNaN: true });
const limits = fc.integer({ min: 1, max: 30 });

const commits = fc
  .tuple(topics, fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 900 }), fc.boolean())
  .map(
    ([topic, count, size, isOwn]): Step =>
      (scene) =>
        scene.commit(topic, count, size, isOwn),
  );

const holes = fc.tuple(topics, fc.integer({ min: 1, max: 3 })).map(([topic, count]): Step => (scene) => {
  scene.commitHole(topic, count);
});

const queries = fc.tuple(topics, places, limits).map(([topic, place, limit]): Step => (scene) => {
  scene.query(topic, Math.round(scene.feed(topic).length * place), limit);
});

/** What a reader does: a query behind the end of the cache adds what is missing. */
const tailing = fc.tuple(topics, limits).map(([topic, limit]): Step => (scene) => {
  scene.query(topic, scene.tails.find(topic)?.to ?? 0, limit);
  scene.check(topic, scene.tails.find(topic)?.to ?? 0, limit, 1);
});

const checks = fc
  .tuple(topics, places, limits, fc.integer({ min: 1, max: 3_000 }))
  .map(([topic, place, limit, maxBytes]): Step => (scene) => {
    scene.check(topic, Math.round(scene.feed(topic).length * place), limit, maxBytes);
  });

/** A promotion; the result of a query and a commit from before it come late. */
const epochs = fc.tuple(topics, places).map(([topic, kept]): Step => (scene) => {
  const before = scene.epoch;
  const events = new Map([[topic, [eventOf(before, 1, 1)]]]);
  scene.beginEpoch(kept);
  scene.query(topic, 0, 10, before);
  scene.tails.append(before, new Map([[topic, scene.feed(topic).length + 1]]), () => events);
  assert.equal(scene.tails.find(topic), undefined);
});

describe('the cache of feeds', () => {
  test('shows parts of the feed without gaps, whatever is committed, missed, evicted or read in any order', () => {
    const steps = fc.array(
      fc.oneof(
        { weight: 4, arbitrary: commits },
        { weight: 1, arbitrary: holes },
        { weight: 2, arbitrary: queries },
        { weight: 3, arbitrary: tailing },
        { weight: 5, arbitrary: checks },
        { weight: 1, arbitrary: epochs },
      ),
      { maxLength: 150 },
    );
    fc.assert(
      fc.property(steps, (taken) => {
        const scene = new Scene();
        for (const step of taken) step(scene);
      }),
      { numRuns: 300 },
    );
  });

  test('serves what this process commits to a topic that was read, and forgets a missed commit of another', () => {
    const scene = new Scene();
    scene.query('a', 0, 10);
    scene.commit('a', 3, 10, true);
    scene.commit('a', 2, 10, true);
    assert.deepEqual(rangeOf(scene, 'a'), [0, 5]);
    scene.commit('a', 1, 10, false);
    scene.commit('a', 1, 10, true);
    assert.deepEqual(rangeOf(scene, 'a'), [0, 5], 'what follows a gap is not cached');
    scene.query('a', 5, 10);
    assert.deepEqual(rangeOf(scene, 'a'), [0, 7]);
  });

  test('forgets the oldest events of a topic and the topics that were not read for longest', () => {
    const scene = new Scene();
    for (const topic of TOPICS) scene.query(topic, 0, 10);
    for (let n = 0; n < 10; n += 1) scene.commit('a', 1, 900, true);
    const [from = 0, to] = rangeOf(scene, 'a');
    assert.equal(to, 10);
    assert.ok(from > 4, `cached from ${from}`);
    assert.ok(scene.check('b', 0, 1, 1));
    for (const topic of ['b', 'c']) for (let n = 0; n < 10; n += 1) scene.commit(topic, 1, 900, true);
    assert.deepEqual(
      TOPICS.filter((topic) => scene.tails.find(topic) === undefined),
      ['a'],
    );
  });

  test('keeps no request in memory whose part an event shows', () => {
    const scene = new Scene();
    scene.query('a', 0, 10);
    const before = heapAfterCollection();
    for (let n = 1; n <= 10; n += 1) {
      const event = eventOf(scene.epoch, n, 10);
      const body = Object(
        readJson(Buffer.from(`{"filler":"${'x'.repeat(1e6)}","payload":{"n":1.0,"a":12345678}}`)),
      );
      const payload = jsonText(body.payload);
      scene.tails.append(scene.epoch, new Map([['a', n]]), () => new Map([['a', [{ ...event, payload }]]]));
    }
    const kept = heapAfterCollection() - before;
    assert.deepEqual(scene.tails.find('a')?.to, 10);
    assert.ok(kept < 4e6, `${kept} bytes`);
  });

  test('shows nothing of a topic from before it was forgotten', () => {
    const scene = new Scene();
    for (const size of [1, 2]) {
      scene.feed('a').length = 0;
      scene.commit('a', 3, size, false);
      scene.tails.forget('a');
      scene.query('a', 0, 10);
      assert.ok(scene.check('a', 0, 10, 1_000));
    }
  });

  test('keeps the newest event whatever its size, and shares a slice among its readers', () => {
    const scene = new Scene();
    scene.query('a', 0, 10);
    scene.commit('a', 1, 10 * TOPIC_BYTES, true);
    const range = { topic: 'a', start: 0, last: 1, limit: 5, maxBytes: 1 };
    assert.equal(scene.tails.read(range)?.entries.length, 1);
    assert.equal(scene.tails.read(range), scene.tails.read(range));
  });
});

function rangeOf({ tails }: Scene, topic: string): number[] {
  const cached = tails.find(topic);
  return cached === undefined ? [] : [cached.from, cached.to];
}

function heapAfterCollection(): number {
  gc?.();
  return process.memoryUsage().heapUsed;
}

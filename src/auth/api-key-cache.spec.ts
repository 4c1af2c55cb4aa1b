import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { KeyCheckTooSlow } from './auth.errors.js';
import { MAX_AGE_MS, ApiKeyCache } from './api-key-cache.js';
import { FakeKeys } from './testing/fake-keys.js';
import { ManualClock } from '../common/testing/manual-clock.js';

const AWAY = new Error('the database is unavailable');

describe('keys of the database', () => {
  let keys: FakeKeys;
  let clock: ManualClock;
  let cache: ApiKeyCache;

  beforeEach(() => {
    keys = new FakeKeys();
    clock = new ManualClock();
    cache = new ApiKeyCache(keys, clock);
  });

  const isGood = async (hash: string): Promise<boolean> => (await cache.find(hash)) !== null;

  test('are asked about once per hash, however many requests come meanwhile', async () => {
    keys.add('h');
    keys.hold();
    const first = isGood('h');
    await new Promise(setImmediate);
    const others = Array.from({ length: 1000 }, () => isGood('h'));
    keys.release();
    assert.ok((await Promise.all([first, ...others])).every(Boolean));
    assert.deepEqual(keys.asked, [['h']]);
  });

  test('are remembered up to a bound, the least recently used dropped first', () => {
    for (const hash of ['a', 'b', 'a']) cache.revoke(hash);
    for (let n = 0; n < 9_999; n += 1) cache.revoke(`k${n}`);
    assert.deepEqual(
      ['a', 'b', 'k0'].map((hash) => cache.has(hash)),
      [true, false, true],
    );
    cache.revoke('one more');
    assert.deepEqual(
      ['a', 'k0', 'k1', 'one more'].map((hash) => cache.has(hash)),
      [true, true, false, true],
    );
  });

  test('are asked about in one statement at a time, so that a flood of different keys needs one connection', async () => {
    keys.hold();
    const first = isGood('first');
    await new Promise(setImmediate);
    const flood = Promise.all(Array.from({ length: 500 }, (_, n) => isGood(`wrong ${n}`)));
    await new Promise(setImmediate);
    assert.deepEqual(keys.asked, [['first']]);
    keys.release();
    await Promise.all([first, flood]);
    assert.deepEqual(
      keys.asked.map(({ length }) => length),
      [1, 200, 200, 100],
    );
  });

  test('are not asked about again while the answer is believed, good or bad', async () => {
    keys.add('good');
    for (let n = 0; n < 10; n += 1) {
      assert.deepEqual([await isGood('good'), await isGood('bad')], [true, false]);
      clock.advance((MAX_AGE_MS - 1) / 10);
    }
    assert.equal(keys.asked.flat().length, 2);
  });

  test('that were revoked here are refused at once, also by an answer that was under way', async () => {
    keys.add('h');
    keys.hold();
    const underWay = isGood('h');
    await new Promise(setImmediate);
    clock.advance(1);
    keys.usable.delete('h');
    cache.revoke('h');
    assert.equal(await isGood('h'), false);
    keys.release();
    assert.equal(await underWay, false);
    assert.equal(await isGood('h'), false);
  });

  test('that expire are refused from that moment on, known or not', async () => {
    keys.add('h', { expiresInMs: 1_000 });
    assert.equal(await isGood('h'), true);
    clock.advance(999);
    assert.equal(await isGood('h'), true);
    clock.advance(1);
    assert.equal(await isGood('h'), false);
    assert.equal(keys.asked.length, 1);
  });

  test('that are known go on without the database until the answer is no longer believed', async () => {
    keys.add('h');
    await cache.find('h');
    keys.failure = AWAY;
    clock.advance(MAX_AGE_MS - 1);
    assert.equal(await isGood('h'), true);
    clock.advance(1);
    await assert.rejects(cache.find('h'), AWAY);
  });

  test('that cannot be asked about are neither good nor bad, and asked about anew', async () => {
    keys.add('h');
    keys.failure = AWAY;
    const failed = await Promise.allSettled([cache.find('h'), cache.find('h'), cache.find('x')]);
    assert.ok(failed.every(({ status }) => status === 'rejected'));
    keys.failure = undefined;
    assert.deepEqual([await isGood('h'), await isGood('x')], [true, false]);
  });

  test('are given up when the answer is too late to be believed, and do not block later questions', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    keys.add('h');
    keys.hold();
    const late = cache.find('h');
    await new Promise(setImmediate);
    vi.advanceTimersByTime(MAX_AGE_MS);
    await assert.rejects(late, KeyCheckTooSlow);
    keys.release();
    assert.equal(await isGood('h'), true);
  });

  test('are not judged by an answer that has become too old', async () => {
    keys.add('h');
    keys.hold();
    const late = cache.find('h');
    await new Promise(setImmediate);
    clock.advance(MAX_AGE_MS);
    keys.release();
    await assert.rejects(late, KeyCheckTooSlow);
  });

  test('that are wrong displace no right one, however many there are', async () => {
    keys.add('h');
    await cache.find('h');
    await Promise.all(Array.from({ length: 30_000 }, (_, n) => cache.find(`wrong ${n}`)));
    keys.failure = AWAY;
    assert.equal(await isGood('h'), true);
    await assert.rejects(cache.find('wrong 0'), AWAY);
  });
});

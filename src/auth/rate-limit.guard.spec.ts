import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'vitest';
import { RateLimitStorage } from './rate-limit.guard.js';
import { ManualClock } from '../common/testing/manual-clock.js';

const MINUTE = 60_000;

test('a window takes its limit of requests and no more, until it ends', async () => {
  const clock = new ManualClock();
  const windows = new RateLimitStorage(clock);
  for (let n = 1; n <= 3; n += 1) {
    const { isBlocked, totalHits } = await windows.increment('a', MINUTE, 3);
    assert.deepEqual({ isBlocked, totalHits }, { isBlocked: false, totalHits: n });
  }
  clock.advance(20_500);
  const over = await windows.increment('a', MINUTE, 3);
  assert.deepEqual([over.isBlocked, over.timeToBlockExpire], [true, 40]);
  clock.advance(39_499);
  assert.deepEqual((await windows.increment('a', MINUTE, 3)).timeToBlockExpire, 1);
  clock.advance(1);
  assert.equal((await windows.increment('a', MINUTE, 3)).isBlocked, false);
});

test('refused requests do not put the end off', async () => {
  const clock = new ManualClock();
  const windows = new RateLimitStorage(clock);
  for (let second = 0; second < 60; second += 1) {
    const { isBlocked } = await windows.increment('a', MINUTE, 1);
    assert.equal(isBlocked, second > 0);
    clock.advance(1_000);
  }
  assert.equal((await windows.increment('a', MINUTE, 1)).isBlocked, false);
});

test('windows that have ended are dropped', async () => {
  const clock = new ManualClock();
  const windows = new RateLimitStorage(clock);
  for (let n = 0; n < 1000; n += 1) {
    await windows.increment(`caller ${n}`, MINUTE, 1);
    clock.advance(MINUTE / 100);
    assert.ok(windows.size <= 100);
  }
  clock.advance(MINUTE);
  await windows.increment('one more', MINUTE, 1);
  assert.equal(windows.size, 1);
});

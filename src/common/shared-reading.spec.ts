import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SharedReading } from './shared-reading.js';

describe('a shared reading', () => {
  let now: number;
  let readings: { readonly resolve: (report: string) => void; readonly reject: (error: Error) => void }[];
  let idleTimes: number;
  let shared: SharedReading<string>;

  beforeEach(() => {
    now = 1_000;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    readings = [];
    idleTimes = 0;
    shared = new SharedReading(
      () => new Promise((resolve, reject) => void readings.push({ resolve, reject })),
      {
        pauseFactor: 9,
        onIdle: () => void (idleTimes += 1),
      },
    );
  });

  async function advance(ms: number): Promise<void> {
    now += ms;
    vi.advanceTimersByTime(ms);
    await nextTurn();
  }

  /** Ends the newest reading. */
  async function end(value: string): Promise<void> {
    readings.at(-1)?.resolve(value);
    await nextTurn();
  }

  test('is shared by the requests before it begins, and not by those after', async () => {
    const first = [shared.next(), shared.next()];
    await nextTurn();
    const later = shared.next();
    await advance(10);
    await end('one');
    assert.deepEqual(await Promise.all(first), ['one', 'one']);
    assert.equal(readings.length, 1, 'the later request waits for a reading of its own');
    await advance(90);
    await end('two');
    assert.equal(await later, 'two');
  });

  test('is followed by a pause of nine times its duration, at most ten seconds', async () => {
    for (const [tookMs, pauseMs] of [
      [10, 90],
      [900, 8_100],
      [5_000, 10_000],
    ] as const) {
      const count = readings.length;
      void shared.next();
      await nextTurn();
      assert.equal(readings.length, count + 1, 'it begins at once after the pause');
      void shared.next();
      await advance(tookMs);
      await end('report');
      await advance(pauseMs - 1);
      assert.equal(readings.length, count + 1);
      await advance(1);
      assert.equal(readings.length, count + 2);
      await end('report');
      await advance(0);
    }
  });

  test('fails for those who waited for it, and not for the next', async () => {
    const first = shared.next();
    await nextTurn();
    readings[0]?.reject(new Error('away'));
    await assert.rejects(first, /away/);
    await advance(0);
    const second = shared.next();
    await nextTurn();
    await end('back');
    assert.equal(await second, 'back');
  });

  test('gives its newest report in a pause, one that is under way, and after the pause a new one', async () => {
    const first = shared.newest();
    await nextTurn();
    const joined = shared.newest();
    await advance(10);
    await end('one');
    assert.deepEqual(await Promise.all([first, joined]), ['one', 'one']);
    await advance(89);
    assert.equal(await shared.newest(), 'one');
    assert.equal(readings.length, 1);
    await advance(1);
    const later = shared.newest();
    await nextTurn();
    await end('two');
    assert.equal(await later, 'two');
  });

  test('is idle when its pause is over and no request waits for the next one', async () => {
    void shared.next();
    await nextTurn();
    void shared.next();
    await advance(10);
    await end('one');
    await advance(90);
    assert.equal(idleTimes, 0);
    await end('two');
    await advance(0);
    assert.equal(idleTimes, 1);
  });
});

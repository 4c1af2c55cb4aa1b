import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PacedReading } from './paced-reading.js';

describe('a paced reading', () => {
  let now: number;
  let readings: { readonly resolve: (report: string) => void; readonly reject: (error: Error) => void }[];
  let paced: PacedReading<string>;

  beforeEach(() => {
    now = 1_000;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    readings = [];
    paced = new PacedReading(() => new Promise((resolve, reject) => void readings.push({ resolve, reject })));
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
    const first = [paced.get(), paced.get()];
    await nextTurn();
    const later = paced.get();
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
      void paced.get();
      await nextTurn();
      assert.equal(readings.length, count + 1, 'it begins at once after the pause');
      void paced.get();
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
    const first = paced.get();
    await nextTurn();
    readings[0]?.reject(new Error('away'));
    await assert.rejects(first, /away/);
    await advance(0);
    const second = paced.get();
    await nextTurn();
    await end('back');
    assert.equal(await second, 'back');
  });

  test('gives its newest report in a pause, one that is under way, and after the pause a new one', async () => {
    const first = paced.latest();
    await nextTurn();
    const joined = paced.latest();
    await advance(10);
    await end('one');
    assert.deepEqual(await Promise.all([first, joined]), ['one', 'one']);
    await advance(89);
    assert.equal(await paced.latest(), 'one');
    assert.equal(readings.length, 1);
    await advance(1);
    const later = paced.latest();
    await nextTurn();
    await end('two');
    assert.equal(await later, 'two');
  });
});

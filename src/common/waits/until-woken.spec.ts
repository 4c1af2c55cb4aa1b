import assert from 'node:assert/strict';
import { beforeEach, describe, type Mock, test, vi } from 'vitest';
import { STEP_MS, untilWoken } from './until-woken.js';

describe('a wait', () => {
  const { signal } = new AbortController();
  let now = 0;
  let timers: Mock<typeof setTimeout>;
  /** Values with which waits have ended, in order. */
  let ended: unknown[];

  beforeEach(() => {
    now = 12_345;
    ended = [];
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    timers = vi.spyOn(globalThis, 'setTimeout');
  });

  async function advance(ms: number): Promise<void> {
    now += ms;
    vi.advanceTimersByTime(ms);
    await settled();
  }

  function wait(forMs: number, by: AbortSignal = signal): (value: string) => void {
    const wakes: ((value: string) => void)[] = [];
    void untilWoken<string>({ signal: by, forMs }, (wake) => {
      wakes.push(wake);
      return () => undefined;
    }).then((value) => ended.push(value));
    return (value) => wakes[0]?.(value);
  }

  test('of a few seconds ends exactly at its timeout', async () => {
    wait(1_000);
    await advance(999);
    assert.deepEqual(ended, []);
    await advance(1);
    assert.deepEqual(ended, [null]);
  });

  test('of many seconds ends at most a quarter of a second early, and never late', async () => {
    wait(20_000);
    await advance(20_000 - STEP_MS);
    assert.deepEqual(ended, []);
    await advance(STEP_MS);
    assert.deepEqual(ended, [null]);
  });

  test('of many seconds shares its timer with those that end at about the same time', async () => {
    for (let n = 0; n < 1_000; n += 1) wait(20_000 + (n % 100));
    assert.ok(timers.mock.calls.length <= 2, `${timers.mock.calls.length} timers`);
    await advance(20_100);
    assert.equal(ended.length, 1_000);
  });

  test('that is woken or aborted ends at once, alone, and only once', async () => {
    const controller = new AbortController();
    const wake = wait(20_000);
    wait(20_000, controller.signal);
    wait(20_000);
    wake('run');
    await settled();
    assert.deepEqual(ended, ['run']);
    controller.abort();
    await settled();
    assert.deepEqual(ended, ['run', null]);
    await advance(20_000);
    assert.deepEqual(ended, ['run', null, null]);
  });

  test('leaves no timer when it is woken', async () => {
    const cleared = vi.spyOn(globalThis, 'clearTimeout');
    wait(20_000)('run');
    await settled();
    assert.equal(cleared.mock.calls.length, 1);
    wait(20_000);
    await advance(20_000);
    assert.deepEqual(ended, ['run', null]);
  });
});

function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { paced } from './in-batches.js';

describe('paced background work', () => {
  let now = 0;
  beforeEach(() => {
    now = 0;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    vi.spyOn(performance, 'now').mockImplementation(() => now);
  });

  /** A batch that takes this long, and whether the work continues after some milliseconds. */
  async function continuesAfter(batchMs: number, ms: number, stop?: AbortSignal): Promise<boolean> {
    let isOver = false;
    void paced(stop, async () => void (now += batchMs)).then(() => (isOver = true));
    await settled();
    vi.advanceTimersByTime(ms);
    await settled();
    return isOver;
  }

  test('pauses for as long as the batch took', async () => {
    assert.equal(await continuesAfter(200, 199), false);
    assert.equal(await continuesAfter(200, 200), true);
  });

  test('pauses for a second at most', async () => {
    assert.equal(await continuesAfter(60_000, 999), false);
    assert.equal(await continuesAfter(60_000, 1_000), true);
  });

  test('does not pause when the process stops', async () => {
    assert.equal(await continuesAfter(200, 0, AbortSignal.abort()), true);
  });

  test('fails as the batch does', async () => {
    const failing = paced(undefined, () => Promise.reject(new Error('no')));
    await assert.rejects(failing, /no/);
  });
});

function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

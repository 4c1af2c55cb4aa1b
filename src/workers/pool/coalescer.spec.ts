import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Coalescer, CoalescerFull, type CoalescerOptions } from './coalescer.js';

const NO_PAUSE = 0;
const ENDLESS = 60_000;

/** Commits that end when the test lets them. */
class Commits {
  readonly batches: (readonly string[])[] = [];
  readonly #ends: ((error?: Error) => void)[] = [];

  readonly commit = (items: readonly string[]): Promise<string[]> => {
    this.batches.push(items);
    return new Promise((resolve, reject) => {
      this.#ends.push((error) => (error ? reject(error) : resolve(items.map((item) => `${item}!`))));
    });
  };

  async end(error?: Error): Promise<void> {
    await sleep(0);
    this.#ends.shift()?.(error);
    await sleep(0);
  }
}

function make(
  commits: Commits,
  options: Partial<CoalescerOptions<string, string>> = {},
): Coalescer<string, string> {
  return new Coalescer({
    pauseMs: NO_PAUSE,
    maxBatch: 10,
    maxBatchBytes: 100,
    maxWaiting: 20,
    maxWaitingBytes: 1000,
    weigh: (item) => item.length,
    commit: commits.commit,
    ...options,
  });
}

describe('Coalescer', () => {
  it('fails every item when a result is missing', async () => {
    const coalescer = make(new Commits(), { commit: () => Promise.resolve(['only one']) });
    const outcomes = await Promise.allSettled(['a', 'b'].map((item) => coalescer.submit(item)));
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
  });

  it('limits the waiting items by number and by bytes, and accepts one large item alone', async () => {
    const commits = new Commits();
    const coalescer = make(commits, { maxBatch: 3, maxWaiting: 3, maxWaitingBytes: 10, maxBatchBytes: 4 });
    const first = coalescer.submit('x'.repeat(50));
    await sleep(0);
    const kept = ['aa', 'bb', 'c'].map((item) => coalescer.submit(item));
    await assert.rejects(coalescer.submit('d'), CoalescerFull);
    await commits.end();
    assert.equal((await first).length, 51);
    await commits.end();
    const heavy = coalescer.submit('y'.repeat(15));
    await assert.rejects(coalescer.submit('z'), CoalescerFull);
    for (let i = 0; i < 2; i += 1) await commits.end();
    await Promise.all([...kept, heavy]);
    assert.deepEqual(
      commits.batches.map((batch) => batch.map((item) => item.length)),
      [[50], [2, 2], [1], [15]],
    );
  });

  it('commits waiting items at once when it is closed, then without pauses', async () => {
    const commits = new Commits();
    const coalescer = make(commits, { pauseMs: ENDLESS });
    const first = coalescer.submit('a');
    await commits.end();
    await first;
    const second = coalescer.submit('b');
    const closed = coalescer.close();
    await commits.end();
    assert.equal(await second, 'b!');
    await closed;
    const third = coalescer.submit('c');
    await commits.end();
    assert.equal(await third, 'c!');
  });
});

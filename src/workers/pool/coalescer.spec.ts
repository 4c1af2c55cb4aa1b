import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Coalescer, CoalescerFull, type CoalescerOptions } from './coalescer.js';

const NO_PAUSE = 0;
const ENDLESS = 60_000;

/** Commits that end when the test lets them. */
class Commits {
  readonly batches: (readonly string[])[] = [];
  readonly #ends: ((error?: Error) => void)[] = [];

  readonly commit = (members: readonly string[]): Promise<string[]> => {
    this.batches.push(members);
    return new Promise((resolve, reject) => {
      this.#ends.push((error) => (error ? reject(error) : resolve(members.map((member) => `${member}!`))));
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
    weigh: (member) => member.length,
    commit: commits.commit,
    ...options,
  });
}

describe('Coalescer', () => {
  it('commits what comes in one turn at once and together, and answers each with its own result', async () => {
    const commits = new Commits();
    const lane = make(commits, { pauseMs: ENDLESS });
    const answers = Promise.all(['a', 'b'].map((member) => lane.submit(member)));
    await commits.end();
    assert.deepEqual(await answers, ['a!', 'b!']);
    assert.deepEqual(commits.batches, [['a', 'b']]);
  });

  it('answers nobody before the commit is through, and gathers what comes meanwhile', async () => {
    const commits = new Commits();
    const lane = make(commits);
    const answered: string[] = [];
    const note = (answer: string): void => void answered.push(answer);
    void lane.submit('a').then(note);
    await sleep(0);
    for (const member of ['b', 'c']) void lane.submit(member).then(note);
    await sleep(0);
    assert.deepEqual([answered, commits.batches], [[], [['a']]]);
    await commits.end();
    assert.deepEqual([answered, commits.batches], [['a!'], [['a'], ['b', 'c']]]);
    await commits.end();
    assert.deepEqual(answered, ['a!', 'b!', 'c!']);
  });

  it('lets the pause pass between the beginnings of two commits', async () => {
    const commits = new Commits();
    const lane = make(commits, { pauseMs: 50 });
    const began = performance.now();
    const first = lane.submit('a');
    await commits.end();
    await first;
    const others = Promise.all(['b', 'c'].map((member) => lane.submit(member)));
    await sleep(0);
    assert.equal(commits.batches.length, 1);
    while (commits.batches.length === 1) await sleep(1);
    assert.ok(performance.now() - began >= 49);
    assert.deepEqual(commits.batches[1], ['b', 'c']);
    await commits.end();
    await others;
  });

  it('fails the members of a commit that fails, and goes on with the next', async () => {
    const commits = new Commits();
    const lane = make(commits);
    const failing = Promise.allSettled(['a', 'b'].map((member) => lane.submit(member)));
    await sleep(0);
    const next = lane.submit('c');
    await commits.end(new Error('no database'));
    await commits.end();
    assert.deepEqual(
      (await failing).map((outcome) => outcome.status === 'rejected' && outcome.reason.message),
      ['no database', 'no database'],
    );
    assert.equal(await next, 'c!');
  });

  it('fails every member when a commit forgets one', async () => {
    const lane = make(new Commits(), { commit: () => Promise.resolve(['only one']) });
    const outcomes = await Promise.allSettled(['a', 'b'].map((member) => lane.submit(member)));
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
  });

  it('takes as many as it may hold, by number and by bytes, and one heavy member alone', async () => {
    const commits = new Commits();
    const lane = make(commits, { maxBatch: 3, maxWaiting: 3, maxWaitingBytes: 10, maxBatchBytes: 4 });
    const first = lane.submit('x'.repeat(50));
    await sleep(0);
    const kept = ['aa', 'bb', 'c'].map((member) => lane.submit(member));
    await assert.rejects(lane.submit('d'), CoalescerFull);
    await commits.end();
    assert.equal((await first).length, 51);
    await commits.end();
    const heavy = lane.submit('y'.repeat(15));
    await assert.rejects(lane.submit('z'), CoalescerFull);
    for (let i = 0; i < 2; i += 1) await commits.end();
    await Promise.all([...kept, heavy]);
    assert.deepEqual(
      commits.batches.map((batch) => batch.map((member) => member.length)),
      [[50], [2, 2], [1], [15]],
    );
  });

  it('commits what waits at once when it is closed, and pauses no more', async () => {
    const commits = new Commits();
    const lane = make(commits, { pauseMs: ENDLESS });
    const first = lane.submit('a');
    await commits.end();
    await first;
    const second = lane.submit('b');
    const closed = lane.close();
    await commits.end();
    assert.equal(await second, 'b!');
    await closed;
    const third = lane.submit('c');
    await commits.end();
    assert.equal(await third, 'c!');
  });
});

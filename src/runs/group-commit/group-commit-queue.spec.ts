import assert from 'node:assert/strict';
import { test } from 'vitest';
import { GroupCommitQueue, QueueFull } from './group-commit-queue.js';
import { done, makeQueue, tick } from './group-commit.fixtures.js';

test('commits commands that arrive during a commit in the next group, in order of arrival', async () => {
  const { it, commit, sizes } = makeQueue();
  const a = it.submit('a');
  const first = await commit(0);
  const rest = ['b', 'c', 'd'].map((command) => it.submit(command));
  first.resolve(done(first.commands));
  const second = await commit(1);
  assert.deepEqual(second.commands, ['b', 'c', 'd']);
  second.resolve(done(second.commands));
  assert.deepEqual(await Promise.all([a, ...rest]), ['A', 'B', 'C', 'D']);
  assert.deepEqual(sizes, [1, 3]);
});

test('begins the next group before the answers of the one before are handled', async () => {
  const { it, commit, commits } = makeQueue();
  const a = it.submit('a');
  const first = await commit(0);
  const b = it.submit('b');
  first.resolve(done(first.commands));
  assert.equal(await a, 'A');
  assert.equal(commits.length, 2);
  commits[1]?.resolve(done(['b']));
  assert.equal(await b, 'B');
});

test('begins the next group only when the callers of failed commands have handled that', async () => {
  let hasFailed = false;
  const seen: boolean[] = [];
  const place = { line: 'requests', owner: undefined, bytes: 1 } as const;
  const it = new GroupCommitQueue<string, string>({
    maxGroup: 2,
    maxGroupBytes: 1000,
    waiting: { commands: 10, commandsOfOwner: 10, bytes: 10, bytesOfOwner: 10 },
    commit: (commands) => {
      seen.push(hasFailed);
      return Promise.resolve(
        commands.map((command) => (command === 'b' ? { error: 'refused' } : { value: command })),
      );
    },
    isFatal: () => false,
    isRetryable: () => false,
  });
  const handled = async (): Promise<void> => {
    await assert.rejects(it.submit('b', place));
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    hasFailed = true;
  };
  await Promise.all([it.submit('a', place), handled(), it.submit('c', place)]);
  assert.deepEqual(seen, [false, true]);
});

test('is idle only when all commands are answered', async () => {
  const { it, commit } = makeQueue();
  let isAnswered = false;
  void it.submit('a').then(() => (isAnswered = true));
  const first = await commit(0);
  first.resolve(done(first.commands));
  await it.idle();
  assert.ok(isAnswered);
});

test('commits commands one by one when the group fails, so that only the failing one is rejected', async () => {
  const { it, commit } = makeQueue();
  const answers = ['a', 'poison', 'c'].map((command) => it.submit(command));
  (await commit(0)).reject('bad value');
  for (const n of [1, 2, 3]) {
    const single = await commit(n);
    assert.equal(single.commands.length, 1);
    if (single.commands[0] === 'poison') single.reject('bad value');
    else single.resolve(done(single.commands));
  }
  assert.deepEqual(
    (await Promise.allSettled(answers)).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

test('does not commit commands one by one when the database is unavailable', async () => {
  const { it, commit, commits } = makeQueue();
  const answers = ['a', 'b'].map((command) => it.submit(command));
  (await commit(0)).reject('database away');
  const settled = await Promise.allSettled(answers);
  assert.deepEqual(
    settled.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  await tick();
  assert.equal(commits.length, 1);
});

test('retries a group after a deadlock a limited number of times', async () => {
  const { it, commit, commits } = makeQueue();
  const answer = it.submit('a');
  for (let n = 0; n < 4; n += 1) (await commit(n)).reject('deadlock');
  await assert.rejects(answer, (error) => error === 'deadlock');
  assert.equal(commits.length, 4);
});

test('refuses a command when too many wait, and recovers', async () => {
  const { it, commit } = makeQueue({ waiting: { commands: 1 } });
  const a = it.submit('a');
  const first = await commit(0);
  const b = it.submit('b');
  await assert.rejects(it.submit('c'), QueueFull);
  first.resolve(done(first.commands));
  const second = await commit(1);
  second.resolve(done(second.commands));
  assert.deepEqual(await Promise.all([a, b]), ['A', 'B']);
  await it.idle();
  const d = it.submit('d');
  const third = await commit(2);
  third.resolve(done(third.commands));
  assert.equal(await d, 'D');
});

test('refuses a command when too many bytes wait, unless no other waits', async () => {
  const { it, commit } = makeQueue({ waiting: { bytes: 4 } });
  const heavy = it.submit('aaaaaaaa');
  const first = await commit(0);
  const b = it.submit('bbb');
  await assert.rejects(it.submit('cc'), QueueFull);
  first.resolve(done(first.commands));
  const second = await commit(1);
  second.resolve(done(second.commands));
  assert.deepEqual(await Promise.all([heavy, b]), ['AAAAAAAA', 'BBB']);
});

test('refuses waiting and new commands while a commit is stuck', async () => {
  const { it, commits, commit } = makeQueue({ stuckAfterMs: 30 });
  const a = it.submit('a');
  const first = await commit(0);
  const waits = assert.rejects(it.submit('b'), QueueFull);
  assert.equal(it.state, 'ok');
  await waits;
  assert.equal(it.state, 'stuck');
  assert.equal(it.waiting, 0);
  await assert.rejects(it.submit('c'), QueueFull);
  first.resolve(done(first.commands));
  assert.equal(await a, 'A');
  await it.idle();
  assert.equal(it.state, 'ok');
  const d = it.submit('d');
  const second = await commit(1);
  assert.deepEqual(second.commands, ['d'], 'nothing was done for who was refused');
  second.resolve(done(second.commands));
  assert.equal(await d, 'D');
  assert.equal(commits.length, 2);
});

test('accepts commands after a stuck commit has failed', async () => {
  const { it, commit } = makeQueue({ stuckAfterMs: 10 });
  const a = it.submit('a');
  const first = await commit(0);
  await assert.rejects(it.submit('b'), QueueFull);
  first.reject('database away');
  await assert.rejects(a);
  assert.equal(it.state, 'ok');
});

test('reports that it is overloaded while it is full', async () => {
  const { it, commit } = makeQueue({ waiting: { commands: 1 } });
  const a = it.submit('a');
  const first = await commit(0);
  const b = it.submit('b');
  assert.equal(it.state, 'overloaded');
  first.resolve(done(first.commands));
  const second = await commit(1);
  assert.equal(it.state, 'ok');
  second.resolve(done(second.commands));
  await Promise.all([a, b]);
});

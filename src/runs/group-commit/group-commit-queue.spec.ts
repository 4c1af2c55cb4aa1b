import assert from 'node:assert/strict';
import { test } from 'vitest';
import { GroupCommitQueue, QueueFull, type Place, type WaitingLimits } from './group-commit-queue.js';
import { done, makeQueue, tick } from './group-commit.fixtures.js';
import fc from 'fast-check';

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

/** A command named `line owner bytes`, and whatever follows. */
function placeOfName(command: string): Place {
  const [line, owner, bytes] = command.split(' ');
  return { line: line === 'report' ? 'reports' : 'requests', owner, bytes: Number(bytes) };
}

test('commits the command of another owner with the next group, however many commands wait before it', async () => {
  const { it, commit } = makeQueue({ maxGroup: 16, placeOf: placeOfName });
  const answers = Array.from({ length: 100 }, (_, i) => it.submit(`request flood 1 ${i}`));
  const first = await commit(0);
  answers.push(it.submit('request quiet 1'), it.submit('report worker 1'));
  first.resolve(done(first.commands));
  const second = await commit(1);
  assert.deepEqual(second.commands.slice(-2), ['request quiet 1', 'report worker 1']);
  assert.equal(second.commands.length, 16);
  second.resolve(done(second.commands));
  for (let n = 2; n < 7; n += 1) {
    const group = await commit(n);
    group.resolve(done(group.commands));
  }
  await Promise.all(answers);
});

test('commits reports of workers whatever requests are waiting, and requests whatever reports are waiting', async () => {
  const { it, commit } = makeQueue({ maxGroup: 8, maxGroupBytes: 80, placeOf: placeOfName });
  const submit = (line: string): Promise<string>[] =>
    Array.from({ length: 20 }, (_, i) => it.submit(`${line} ${i} 10`));
  const answers = [...submit('request'), ...submit('report')];
  const first = await commit(0);
  const count = (line: string): number => first.commands.filter((command) => command.startsWith(line)).length;
  assert.equal(count('report'), 6);
  assert.equal(count('request'), 2);
  first.resolve(done(first.commands));
  for (let n = 1; n < 5; n += 1) {
    const group = await commit(n);
    group.resolve(done(group.commands));
  }
  await Promise.all(answers);
});

const isRefused = (limit: keyof WaitingLimits) => (error: unknown) =>
  error instanceof QueueFull && error.reason === 'share' && error.limit === limit;

test('refuses the commands of an owner who has too many waiting, and accepts those of others', async () => {
  const { it, commit } = makeQueue({
    waiting: { commandsOfOwner: 2, bytesOfOwner: 10 },
    placeOf: placeOfName,
  });
  const answers = [it.submit('request a 1')];
  const first = await commit(0);
  answers.push(it.submit('request a 1'), it.submit('request a 1'), it.submit('request b 8'));
  await assert.rejects(it.submit('request a 1'), isRefused('commandsOfOwner'));
  await assert.rejects(it.submit('request b 3'), isRefused('bytesOfOwner'));
  answers.push(it.submit('request b 2'), it.submit('report a 1'));
  assert.equal(it.state, 'ok');
  first.resolve(done(first.commands));
  const second = await commit(1);
  second.resolve(done(second.commands));
  await Promise.all(answers);
});

test('accepts reports while the line of requests is full', async () => {
  const { it, commit } = makeQueue({ waiting: { commands: 1 }, placeOf: placeOfName });
  const answers = [it.submit('request a 1')];
  const first = await commit(0);
  answers.push(it.submit('request a 1'));
  await assert.rejects(
    it.submit('request b 1'),
    (error) => error instanceof QueueFull && error.reason === 'overloaded' && error.limit === 'commands',
  );
  answers.push(it.submit('report a 1'));
  first.resolve(done(first.commands));
  const second = await commit(1);
  second.resolve(done(second.commands));
  await Promise.all(answers);
});

/** The commands by line and owner. */
function byOwner(commands: readonly string[]): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const name of commands) (found[name.split(' ').slice(0, 2).join(' ')] ??= []).push(name);
  return found;
}

test('whatever arrives: every group is bounded, every command is committed once, owners keep their order', async () => {
  const command = fc.record({
    line: fc.constantFrom('report', 'request'),
    owner: fc.constantFrom('a', 'b', 'c'),
    bytes: fc.integer({ min: 0, max: 60 }),
    isLater: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 60 }), async (arrivals) => {
      const waiting = { bytes: 1e6, bytesOfOwner: 1e6 };
      const { it, commits } = makeQueue({ maxGroup: 8, maxGroupBytes: 50, placeOf: placeOfName, waiting });
      const committed: string[] = [];
      let answered = 0;
      const commitNext = async (): Promise<void> => {
        await tick();
        const group = commits[answered];
        if (group === undefined) return;
        answered += 1;
        const places = group.commands.map(placeOfName);
        const bytes = places.reduce((sum, place) => sum + place.bytes, 0);
        const largest = (line: string): number =>
          Math.max(0, ...places.filter((place) => place.line === line).map((place) => place.bytes));
        assert.ok(group.commands.length <= 8);
        assert.ok(bytes <= 50 + largest('reports') + largest('requests'));
        committed.push(...group.commands);
        group.resolve(done(group.commands));
      };
      const names: string[] = [];
      for (const [i, { line, owner, bytes, isLater }] of arrivals.entries()) {
        if (isLater) await commitNext();
        const name = `${line} ${owner} ${bytes} ${i}`;
        names.push(name);
        void it.submit(name);
      }
      while (it.waiting > 0 || answered < commits.length) await commitNext();
      assert.deepEqual(byOwner(committed), byOwner(names));
    }),
    { numRuns: 100 },
  );
});

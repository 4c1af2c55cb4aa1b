import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { GPU, LONG_MS, ONE_GPU, PLAIN, setUp } from './waiting-claims.fixtures.js';

describe('waiting claims', () => {
  test('are woken one for each run, the longest waiting first', async () => {
    const it = setUp();
    for (const name of ['a', 'b', 'c', 'd']) it.wait(name);
    it.notify({ plain: 2 });
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b']);
    it.close();
  });

  test('are woken for a run with requirements if their worker has what it needs', async () => {
    const it = setUp();
    it.waitWith('plain', []);
    it.waitWith('gpu', ['tag:gpu']);
    it.waitWith('both', ['tag:gpu', 'tag:linux']);
    it.notify({ others: 1, lanes: { a: ['tag:gpu', 'tag:linux'] } });
    await it.tick();
    assert.deepEqual(it.names(), ['both']);
    it.close();
  });

  test('are woken in growing numbers for a run with requirements that are unknown', async () => {
    const it = setUp();
    for (let i = 0; i < 40; i += 1) it.waitWith(`w${i}`, []);
    it.notify({ others: 1 });
    let settled = 0;
    for (let rounds = 0; rounds < 7; rounds += 1) {
      await it.tick();
      const fresh = it.woken.slice(settled);
      settled = it.woken.length;
      for (const { wakeUp } of fresh) wakeUp.settle('empty', []);
    }
    assert.equal(it.woken.length, 40);
    it.close();
  });

  test('are woken instead of one that took another run than those it was woken for', async () => {
    const it = setUp();
    for (const name of ['a', 'b']) it.waitWith(name, ['tag:gpu']);
    it.notify(ONE_GPU);
    await it.tick();
    it.woken[0]?.wakeUp.settle('served', [PLAIN]);
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b']);
    for (const name of ['c', 'd']) it.waitWith(name, ['tag:gpu']);
    it.notify({ plain: 1 });
    await it.tick();
    it.woken[2]?.wakeUp.settle('served', [GPU]);
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b', 'c', 'd']);
    it.close();
  });

  test('are not woken for a run that is gone for a worker that could have got it', async () => {
    const it = setUp();
    for (const name of ['a', 'b', 'c']) it.waitWith(name, ['tag:gpu']);
    it.notify(ONE_GPU);
    await it.tick();
    it.woken[0]?.wakeUp.settle('empty', []);
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });

  test('are woken for a run that avoids a worker, except those of that worker', async () => {
    const it = setUp();
    for (const name of ['a', 'b', 'c']) it.waitWith(name, []);
    it.notify({ others: 2, lanes: { x: ['not-worker:a'], y: ['not-worker:b'] } });
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b']);
    it.woken[0]?.wakeUp.settle('empty', []);
    it.woken[1]?.wakeUp.settle('gone', []);
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b', 'c']);
    it.close();
  });

  test('are woken by a run that was announced between their try and their wait', async () => {
    const it = setUp();
    const before = it.claims.version;
    it.notify({ plain: 1 });
    it.wait('late', before);
    await it.tick();
    assert.deepEqual(it.names(), ['late']);
    assert.equal(it.claims.size, 0);
  });

  test('wake the next one when they are refused or their client is gone', async () => {
    for (const outcome of ['refused', 'gone'] as const) {
      const it = setUp();
      for (const name of ['a', 'b', 'c']) it.wait(name);
      it.notify({ plain: 1 });
      await it.tick();
      it.woken[0]?.wakeUp.settle(outcome, []);
      await it.tick();
      assert.deepEqual(it.names(), ['a', 'b']);
      it.woken[1]?.wakeUp.settle('served', [PLAIN]);
      await it.tick();
      assert.deepEqual(it.names(), ['a', 'b']);
      it.close();
    }
  });

  test('all try once when notifications may have been lost', async () => {
    const it = setUp();
    for (const name of ['a', 'b', 'c']) it.wait(name);
    it.notify(null);
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b', 'c']);
  });

  test('one is woken by a creation in this process, before its notification', async () => {
    const it = setUp();
    for (const name of ['a', 'b']) it.wait(name);
    it.create();
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });

  test('end when their client is gone, and are not woken any more', async () => {
    const it = setUp();
    const caller = new AbortController();
    it.wait('gone', it.claims.version, caller.signal);
    it.wait('next');
    caller.abort();
    it.notify({ plain: 1 });
    await it.tick();
    assert.deepEqual([it.ended, it.names()], [['gone'], ['next']]);
  });

  test('are woken in growing waves until a run that only some workers can execute is taken', async () => {
    const it = setUp('fit');
    for (let n = 0; n < 200; n += 1) it.wait(`w${n}`);
    it.notify({ plain: 1 });
    await it.tick();
    assert.equal(it.woken.length, 8);
    for (const { wakeUp } of it.woken.slice(0, 7)) wakeUp.settle('empty', []);
    await it.tick();
    assert.equal(it.woken.length, 8);
    it.woken[7]?.wakeUp.settle('empty', []);
    await it.tick();
    assert.equal(it.woken.length, 8 + 64);
    for (const { wakeUp } of it.woken.slice(8, 71)) wakeUp.settle('empty', []);
    it.woken[71]?.wakeUp.settle('served', [PLAIN]);
    await it.tick();
    assert.equal(it.woken.length, 72);
    it.close();
  });

  test('wake the next ones when a run and free capacity arrive at the same time, in any order', async () => {
    for (let steps = 0; steps < 8; steps += 1) {
      const it = setUp('fit');
      const names = Array.from({ length: 10 }, (_, n) => `w${n}`);
      for (const name of names) it.wait(name);
      it.send({ freedWorkers: ['w0'] });
      for (let n = 0; n < steps; n += 1) await Promise.resolve();
      it.notify({ plain: 1 });
      await it.tick();
      // The second wave starts when all claims of the first have settled.
      for (const { wakeUp } of it.woken) wakeUp.settle('empty', []);
      await it.tick();
      assert.deepEqual(it.names().toSorted(), names, `after ${steps} steps`);
      it.close();
    }
  });

  test('are woken by free capacity that grew between their try and their wait', async () => {
    const it = setUp('fit');
    const capacity = it.claims.listenForCapacity('w');
    assert.ok(capacity);
    capacity.reset();
    it.send({ freedWorkers: ['w'] });
    const signal = new AbortController().signal;
    assert.ok(await it.claims.wait(it.claims.version, capacity, LONG_MS, signal));
    assert.equal(it.claims.size, 0);
  });

  test('are not woken twice for the same runs', async () => {
    const it = setUp('fit');
    it.wait('a');
    it.notify({ plain: 1 });
    await it.tick();
    it.wait('a again');
    it.woken[0]?.wakeUp.settle('empty', []);
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });
});

describe('waiting claims by what heartbeats say of their workers', () => {
  test('of a worker are woken when its heartbeat has other tags', async () => {
    const it = setUp();
    const worker = { id: 'a', cpuCores: 1, ramMb: 1, gpus: [], capabilities: [] };
    assert.equal(it.claims.noteHeartbeat({ ...worker, tags: [] }), null);
    it.waitWith('a', []);
    it.waitWith('b', []);
    assert.equal(it.claims.noteHeartbeat({ ...worker, tags: [] }), null);
    assert.deepEqual(it.claims.noteHeartbeat({ ...worker, tags: ['gpu'] }), { changedWorkers: ['a'] });
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });

  test('that were not tried are woken for the lanes that their last heartbeat lets them serve', async () => {
    const it = setUp();
    const worker = { cpuCores: 1, ramMb: 1, gpus: [], capabilities: [] };
    it.claims.noteHeartbeat({ ...worker, id: 'plain', tags: [] });
    it.claims.noteHeartbeat({ ...worker, id: 'gpu', tags: ['gpu'] });
    for (const name of ['plain', 'gpu', 'unknown']) it.wait(name);
    it.notify(ONE_GPU);
    await it.tick();
    assert.deepEqual(it.names(), ['gpu']);
    it.notify(ONE_GPU);
    await it.tick();
    assert.deepEqual(it.names(), ['gpu', 'unknown']);
    it.close();
  });

  test('that got nothing show which lanes are empty by the tags that they were tried with', async () => {
    const it = setUp();
    const worker = { id: 'changed', offer: { id: 'changed', has: new Set(['tag:gpu']), gpus: [] } };
    const wakeUp = it.claims.wait(it.claims.version, null, LONG_MS, new AbortController().signal, worker);
    it.waitWith('gpu', ['tag:gpu']);
    it.notify(ONE_GPU);
    worker.offer = { id: 'changed', has: new Set(), gpus: [] };
    (await wakeUp)?.settle('empty', []);
    await it.tick();
    assert.deepEqual(it.names(), ['gpu']);
    it.close();
  });

  test('that were not tried are woken for every lane once another process may have heard of other tags', async () => {
    for (const notice of [{ changedWorkers: ['plain'] }, null]) {
      const it = setUp();
      const worker = { id: 'plain', cpuCores: 1, ramMb: 1, gpus: [], capabilities: [], tags: [] };
      it.claims.noteHeartbeat(worker);
      it.send(notice);
      it.wait('plain');
      it.notify(ONE_GPU);
      await it.tick();
      assert.deepEqual(it.names(), ['plain']);
      assert.equal(it.claims.noteHeartbeat(worker), null);
      it.wait('plain');
      it.notify(ONE_GPU);
      await it.tick();
      assert.deepEqual(it.names(), ['plain']);
      it.close();
    }
  });

  test('of a worker are woken when it has other GPUs, in other processes too, by every strategy', async () => {
    const worker = { id: 'a', cpuCores: 2, ramMb: 2, gpus: [], tags: [], capabilities: [] };
    for (const strategy of ['fit', 'direct'] as const) {
      const it = setUp(strategy);
      assert.equal(it.claims.noteHeartbeat(worker), null);
      for (const name of ['a', 'b']) it.wait(name);
      const gpus = [{ id: 0, vramMb: 1, tags: [] }];
      assert.deepEqual(it.claims.noteHeartbeat({ ...worker, gpus }), { changedWorkers: ['a'] });
      await it.tick();
      assert.deepEqual(it.names(), ['a']);
      it.close();
    }
  });

  test('of a worker are woken when its resources have grown, in other processes too, unless the strategy ignores them', async () => {
    const worker = { id: 'a', cpuCores: 2, ramMb: 2, gpus: [], tags: [], capabilities: [] };
    for (const [more, isGrown] of [
      [{}, false],
      [{ cpuCores: 1, ramMb: 1 }, false],
      [{ cpuCores: 1, ramMb: 3 }, true],
      [{ cpuCores: 3 }, true],
    ] as const) {
      for (const strategy of ['fit', 'direct'] as const) {
        const it = setUp(strategy);
        const isWoken = isGrown && strategy === 'fit';
        assert.equal(it.claims.noteHeartbeat(worker), null);
        for (const name of ['a', 'b']) it.wait(name);
        const { version } = it.claims;
        const notice = it.claims.noteHeartbeat({ ...worker, ...more });
        assert.deepEqual(notice, isWoken ? { grownWorkers: ['a'] } : null);
        await it.tick();
        assert.deepEqual(it.names(), isWoken ? ['a'] : []);
        assert.equal(it.claims.version, version, 'nothing has changed for other claims');
        it.send({ grownWorkers: ['b'] });
        await it.tick();
        assert.equal(it.names().includes('b'), strategy === 'fit');
        it.close();
      }
    }
  });
});

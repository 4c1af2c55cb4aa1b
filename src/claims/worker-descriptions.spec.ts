import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { LONG_MS, ONE_GPU, setUp } from './waiting-claims.fixtures.js';

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
    const worker = { id: 'changed', offer: { id: 'changed', has: new Set(['tag:gpu']) } };
    const wakeUp = it.claims.wait(it.claims.version, null, LONG_MS, new AbortController().signal, worker);
    it.waitWith('gpu', ['tag:gpu']);
    it.notify(ONE_GPU);
    worker.offer = { id: 'changed', has: new Set() };
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

  test('of a worker are woken when its resources have grown, in other processes too, unless the strategy ignores them', async () => {
    const worker = { id: 'a', cpuCores: 2, ramMb: 2, gpus: [], tags: [], capabilities: [] };
    for (const [more, isGrown] of [
      [{}, false],
      [{ cpuCores: 1, ramMb: 1 }, false],
      [{ cpuCores: 1, ramMb: 3 }, true],
      [{ cpuCores: 3 }, true],
      [{ gpus: [{ id: 0, vramMb: 1, tags: [] }] }, true],
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

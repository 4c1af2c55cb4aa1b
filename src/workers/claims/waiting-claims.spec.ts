import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NotificationListener } from '../../database/notifications.js';
import { ROOM_CHANNEL } from '../../runs/queue/queue.repository.js';
import { DirectStrategy } from '../strategies/direct.strategy.js';
import { FitStrategy } from '../strategies/fit.strategy.js';
import { WaitingClaims, type Turn } from './waiting-claims.js';

const LONG_MS = 60_000;

const nothing = (): undefined => undefined;

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waiting claims with what they hear at hand, and the names of those that were woken, in order. */
function scene(strategy: 'direct' | 'fit' = 'direct') {
  let hear: NotificationListener = nothing;
  let hearRoom: NotificationListener = nothing;
  let create: () => void = nothing;
  const claims = new WaitingClaims(
    {
      subscribe: (channel, listener) => {
        if (channel === ROOM_CHANNEL) hearRoom = listener;
        else hear = listener;
        return () => undefined;
      },
      hears: () => true,
    },
    {
      onCreate: (listener) => {
        create = listener;
        return () => undefined;
      },
      announceRoom: nothing,
    },
    strategy === 'direct' ? new DirectStrategy() : new FitStrategy(300),
  );
  const woken: { name: string; turn: Turn }[] = [];
  const ended: string[] = [];
  const wait = (name: string, since = claims.version, signal = new AbortController().signal): void => {
    const room = claims.watchRoom(name);
    const waiting = claims.turn(since, room, LONG_MS, signal).finally(() => room?.close());
    void waiting.then((turn) => (turn ? woken.push({ name, turn }) : ended.push(name)));
  };
  return {
    claims,
    woken,
    ended,
    wait,
    tick,
    names: () => woken.map(({ name }) => name),
    hear: (payload: string | null) => hear(payload),
    hearRoom: (worker: string) => hearRoom(worker),
    create: () => create(),
    /** Ends what is still waiting, so that no timer is left. */
    close: () => {
      while (claims.size > 0) hear(null);
    },
  };
}

describe('claims that wait', () => {
  test('are woken one for each run, who waits longest first', async () => {
    const it = scene();
    for (const name of ['a', 'b', 'c', 'd']) it.wait(name);
    it.hear('2');
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b']);
    it.close();
  });

  test('do not miss what was announced between their look and their wait', async () => {
    const it = scene();
    const before = it.claims.version;
    it.hear('1');
    it.wait('late', before);
    await it.tick();
    assert.deepEqual(it.names(), ['late']);
    assert.equal(it.claims.size, 0);
  });

  test('pass the word on when their worker may have no work or has gone', async () => {
    for (const outcome of ['refused', 'gone'] as const) {
      const it = scene();
      for (const name of ['a', 'b', 'c']) it.wait(name);
      it.hear('1');
      await it.tick();
      it.woken[0]?.turn.settle(outcome, 0);
      await it.tick();
      assert.deepEqual(it.names(), ['a', 'b']);
      it.woken[1]?.turn.settle('served', 1);
      await it.tick();
      assert.deepEqual(it.names(), ['a', 'b']);
      it.close();
    }
  });

  test('say nothing to the others when the head of the queue is gone', async () => {
    const it = scene();
    for (const name of ['a', 'b']) it.wait(name);
    it.hear('1');
    await it.tick();
    it.woken[0]?.turn.settle('nothing', 0);
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });

  test('count a turn once, whatever is said of it afterwards', async () => {
    const it = scene();
    for (const name of ['a', 'b', 'c']) it.wait(name);
    it.hear('1');
    await it.tick();
    it.woken[0]?.turn.settle('served', 1);
    it.woken[0]?.turn.settle('gone', 0);
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });

  test('all look once when announcements may have been missed', async () => {
    const it = scene();
    for (const name of ['a', 'b', 'c']) it.wait(name);
    it.hear(null);
    await it.tick();
    assert.deepEqual(it.names(), ['a', 'b', 'c']);
  });

  test('one is woken by a creation in this process, before anything is announced', async () => {
    const it = scene();
    for (const name of ['a', 'b']) it.wait(name);
    it.create();
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });

  test('end when their caller goes, and are not woken any more', async () => {
    const it = scene();
    const caller = new AbortController();
    it.wait('gone', it.claims.version, caller.signal);
    it.wait('next');
    caller.abort();
    it.hear('1');
    await it.tick();
    assert.deepEqual([it.ended, it.names()], [['gone'], ['next']]);
  });

  test('for runs that only some workers can take are woken in growing waves until the runs are taken', async () => {
    const it = scene('fit');
    for (let n = 0; n < 200; n += 1) it.wait(`w${n}`);
    it.hear('1');
    await it.tick();
    assert.equal(it.woken.length, 8);
    for (const { turn } of it.woken.slice(0, 7)) turn.settle('nothing', 0);
    await it.tick();
    assert.equal(it.woken.length, 8);
    it.woken[7]?.turn.settle('nothing', 0);
    await it.tick();
    assert.equal(it.woken.length, 8 + 64);
    for (const { turn } of it.woken.slice(8, 71)) turn.settle('nothing', 0);
    it.woken[71]?.turn.settle('served', 1);
    await it.tick();
    assert.equal(it.woken.length, 72);
    it.close();
  });

  test('are woken when their own worker has got room', async () => {
    const it = scene('fit');
    for (const name of ['a', 'b']) it.wait(name);
    it.hearRoom('b');
    it.hearRoom('nobody');
    await it.tick();
    assert.deepEqual(it.names(), ['b']);
    assert.equal(it.claims.size, 1);
    it.close();
  });

  test('pass the word on when their worker gets room at the same moment, whichever is heard first', async () => {
    for (let steps = 0; steps < 8; steps += 1) {
      const it = scene('fit');
      const names = Array.from({ length: 10 }, (_, n) => `w${n}`);
      for (const name of names) it.wait(name);
      it.hearRoom('w0');
      for (let n = 0; n < steps; n += 1) await Promise.resolve();
      it.hear('1');
      await it.tick();
      // The second wave comes when everybody of the first has told what became of it.
      for (const { turn } of it.woken) turn.settle('nothing', 0);
      await it.tick();
      assert.deepEqual(it.names().toSorted(), names, `after ${steps} steps`);
      it.close();
    }
  });

  test('do not miss that their worker has got room between their look and their wait', async () => {
    const it = scene('fit');
    const room = it.claims.watchRoom('w');
    assert.ok(room);
    room.reset();
    it.hearRoom('w');
    const signal = new AbortController().signal;
    assert.ok(await it.claims.turn(it.claims.version, room, LONG_MS, signal));
    assert.equal(it.claims.size, 0);
  });

  test('are not woken twice for the same runs', async () => {
    const it = scene('fit');
    it.wait('a');
    it.hear('1');
    await it.tick();
    it.wait('a again');
    it.woken[0]?.turn.settle('nothing', 0);
    await it.tick();
    assert.deepEqual(it.names(), ['a']);
    it.close();
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NotificationListener } from '../../database/notifications.js';
import { ChannelNotifications } from './channel-notifications.js';

const NEVER = new AbortController().signal;

/** News whose notifications the test makes itself. */
function scene() {
  const listeners: NotificationListener[] = [];
  const state = { isListening: true };
  return {
    listeners,
    news: new ChannelNotifications(
      {
        subscribe: (_channel, listener) => {
          listeners.push(listener);
          return () => void listeners.splice(listeners.indexOf(listener), 1);
        },
        isListening: () => state.isListening,
      },
      'channel',
    ),
    state,
    tell: (payload: string | null) => {
      for (const listener of listeners) listener(payload);
    },
  };
}

/** Whether a promise is settled once everything that is due has run. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => (done = true));
  await new Promise((resolve) => setImmediate(resolve));
  return done;
}

test('listens once somebody watches, and once only', () => {
  const { news, listeners } = scene();
  assert.equal(listeners.length, 0);
  news.watch('a');
  news.watch('b');
  assert.equal(listeners.length, 1);
  news.onModuleDestroy();
  assert.equal(listeners.length, 0);
});

test('wakes a reader for what it has not seen, on its topic only', async () => {
  const { news, tell } = scene();
  const watch = news.watch('a b');
  const waiting = watch.news(5, watch.version, { signal: NEVER });
  tell('9 a');
  tell('9 b');
  tell('5 a b');
  assert.equal(await settled(waiting), false);
  tell('6 a b');
  assert.equal(await waiting, true);
});

test('does not lose what is announced between looking and waiting', async () => {
  const { news, tell } = scene();
  const watch = news.watch('a');
  const { version } = watch;
  tell('6 a');
  assert.equal(await watch.news(5, version, { signal: NEVER }), true);
});

test('does not count an old announcement as news again: a reader must not spin on what it cannot find', async () => {
  const { news, tell } = scene();
  const watch = news.watch('a');
  tell('6 a');
  const abort = new AbortController();
  const waiting = watch.news(5, watch.version, { signal: abort.signal });
  assert.equal(await settled(waiting), false);
  abort.abort();
  assert.equal(await waiting, false);
});

test('wakes everybody when announcements may have been missed, also those who were just looking', async () => {
  const { news, tell } = scene();
  const [a, b] = [news.watch('a'), news.watch('b')];
  const { version } = b;
  const waiting = a.news(5, a.version, { signal: NEVER });
  tell(null);
  assert.equal(await waiting, true);
  assert.equal(await b.news(5, version, { signal: NEVER }), true);
});

test('gives up when the time is over or the signal aborts', async () => {
  const { news } = scene();
  const watch = news.watch('a');
  assert.equal(await watch.news(0, watch.version, { signal: NEVER, forMs: 1 }), false);
  assert.equal(await watch.news(0, watch.version, { signal: AbortSignal.abort() }), false);
  const abort = new AbortController();
  const waiting = watch.news(0, watch.version, { signal: abort.signal });
  abort.abort();
  assert.equal(await waiting, false);
});

test('never gives two moments of a topic the same version, whoever watched it before', () => {
  const { news, tell } = scene();
  const versions = new Set<number>();
  for (let n = 1; n <= 3; n += 1) {
    const watch = news.watch('a');
    tell(`${n} a`);
    versions.add(watch.version);
    watch.close();
    watch.close();
  }
  assert.equal(versions.size, 3);
});

test('goes on for the others when one watch is closed', async () => {
  const { news, tell } = scene();
  const [one, other] = [news.watch('a'), news.watch('a')];
  const waiting = other.news(0, other.version, { signal: NEVER });
  one.close();
  tell('1 a');
  assert.equal(await waiting, true);
});

test('gathers what comes faster than its readers can be served, and wakes all of them together', async () => {
  const { news, tell } = scene();
  const watches = Array.from({ length: 100 }, () => news.watch('a'));
  const wait = (after: number): Promise<boolean>[] =>
    watches.map((watch) => watch.news(after, watch.version, { signal: NEVER }));
  const first = wait(0);
  tell('1 a');
  assert.ok(await settled(Promise.all(first)), 'the first news come at once');
  const second = wait(1);
  const began = performance.now();
  tell('2 a');
  assert.equal(await settled(Promise.race(second)), false);
  tell('3 a');
  assert.deepEqual(new Set(await Promise.all(second)), new Set([true]));
  assert.ok(performance.now() - began < 1_000);
});

test('has a reader that comes between two turns wait for the next one, though nothing is announced for it', async () => {
  const { news, tell } = scene();
  const watches = Array.from({ length: 100 }, () => news.watch('a'));
  const [one, other] = watches;
  assert.ok(one && other);
  assert.equal(await one.turn({ signal: NEVER }), true);
  const waiting = one.news(0, one.version, { signal: NEVER });
  tell('1 a');
  assert.equal(await waiting, true);
  const turn = other.turn({ signal: NEVER });
  assert.equal(await settled(turn), false);
  assert.equal(await turn, true);
});

test('remembers where a topic ends until it grows, also while nobody watches it', () => {
  const { news, tell } = scene();
  let watch = news.watch('a');
  assert.equal(watch.endBehind(5), undefined);
  watch.noteEnd(5, 5, watch.version);
  watch.noteEnd(null, 5, watch.version);
  watch.close();
  tell('9 b');
  watch = news.watch('a');
  assert.deepEqual(
    [5, null, 4].map((place) => watch.endBehind(place)),
    [5, 5, undefined],
  );
  watch.close();
  tell('6 a');
  watch = news.watch('a');
  assert.equal(watch.endBehind(5), undefined);
});

test('does not take for the end what was read before the latest announcement', () => {
  const { news, tell } = scene();
  const watch = news.watch('a');
  const { version } = watch;
  tell('6 a');
  watch.noteEnd(5, 5, version);
  assert.equal(watch.endBehind(5), undefined);
});

test('knows no end while announcements are not heard, and after some may have been missed', () => {
  const { news, tell, state } = scene();
  const watch = news.watch('a');
  watch.noteEnd(5, 5, watch.version);
  state.isListening = false;
  assert.equal(watch.endBehind(5), undefined);
  watch.noteEnd(6, 6, watch.version);
  state.isListening = true;
  assert.deepEqual([watch.endBehind(5), watch.endBehind(6)], [5, undefined]);
  tell(null);
  assert.equal(watch.endBehind(5), undefined);
});

import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import { test, vi } from 'vitest';
import type { NoticeListener } from './commit-notices.js';
import { Topics } from './topics.js';

const NEVER = new AbortController().signal;
setMaxListeners(0, NEVER);

/** Topics whose notices the test sends itself, as `POSITION TOPIC`. */
function setUp() {
  const listeners: NoticeListener[] = [];
  const state = { isListening: true };
  return {
    listeners,
    channel: new Topics(
      {
        subscribe: (listener) => {
          listeners.push(listener);
          return () => void listeners.splice(listeners.indexOf(listener), 1);
        },
        get isListening() {
          return state.isListening;
        },
      },
      'topics',
    ),
    state,
    notify: (text: string | null) => {
      const [, position, topic = ''] = /^(\d+) (.*)$/.exec(text ?? '') ?? [];
      for (const listener of listeners)
        listener(text === null ? null : { topics: { [topic]: Number(position) } });
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

test('wakes a reader for entries behind its position on its topic only', async () => {
  const { channel, notify } = setUp();
  const topic = channel.subscribe('a b');
  const waiting = topic.waitForChange(5, topic.version, { signal: NEVER });
  notify('9 a');
  notify('9 b');
  notify('5 a b');
  assert.equal(await settled(waiting), false);
  notify('6 a b');
  assert.equal(await waiting, true);
});

test('does not lose a notification between the query and the wait', async () => {
  const { channel, notify } = setUp();
  const topic = channel.subscribe('a');
  const { version } = topic;
  notify('6 a');
  assert.equal(await topic.waitForChange(5, version, { signal: NEVER }), true);
});

test('wakes a reader once for one notification, so that it does not loop on an entry that it cannot find', async () => {
  const { channel, notify } = setUp();
  const topic = channel.subscribe('a');
  notify('6 a');
  const abort = new AbortController();
  const waiting = topic.waitForChange(5, topic.version, { signal: abort.signal });
  assert.equal(await settled(waiting), false);
  abort.abort();
  assert.equal(await waiting, false);
});

test('wakes all readers when notifications may have been missed, also those with a query in progress', async () => {
  const { channel, notify } = setUp();
  const [a, b] = [channel.subscribe('a'), channel.subscribe('b')];
  const { version } = b;
  const waiting = a.waitForChange(5, a.version, { signal: NEVER });
  notify(null);
  assert.equal(await waiting, true);
  assert.equal(await b.waitForChange(5, version, { signal: NEVER }), true);
});

test('stops waiting when the time is over or the signal aborts', async () => {
  const { channel } = setUp();
  const topic = channel.subscribe('a');
  assert.equal(await topic.waitForChange(0, topic.version, { signal: NEVER, forMs: 1 }), false);
  assert.equal(await topic.waitForChange(0, topic.version, { signal: AbortSignal.abort() }), false);
  const abort = new AbortController();
  const waiting = topic.waitForChange(0, topic.version, { signal: abort.signal });
  abort.abort();
  assert.equal(await waiting, false);
});

test('keeps the other readers of a topic when one unsubscribes', async () => {
  const { channel, notify } = setUp();
  const [one, other] = [channel.subscribe('a'), channel.subscribe('a')];
  const waiting = other.waitForChange(0, other.version, { signal: NEVER });
  channel.unsubscribe(one);
  assert.deepEqual(channel.subscribed, ['a']);
  notify('1 a');
  assert.equal(await waiting, true);
  channel.unsubscribe(other);
  assert.deepEqual(channel.subscribed, []);
});

/** A topic with readers that poll and a clock that the test sets. */
function setUpWithClock() {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { channel, notify } = setUp();
  return {
    channel,
    notify,
    pass: (ms: number): void => {
      now += ms;
      vi.advanceTimersByTime(ms);
    },
    /** What a long poll does that finds something. */
    poll: async (after: number): Promise<void> => {
      const topic = channel.subscribe('a');
      await topic.waitForTurn(after, { signal: NEVER });
      channel.unsubscribe(topic);
    },
  };
}

test('collects frequent changes and wakes all readers together', async () => {
  const { channel, notify, pass } = setUpWithClock();
  const topics = Array.from({ length: 100 }, () => channel.subscribe('a'));
  const wait = (after: number): Promise<boolean>[] =>
    topics.map((topic) => topic.waitForChange(after, topic.version, { signal: NEVER }));
  const first = wait(0);
  notify('1 a');
  assert.ok(await settled(Promise.all(first)), 'the first change wakes them at once');
  const second = wait(1);
  notify('2 a');
  pass(149);
  assert.equal(await settled(Promise.race(second)), false);
  notify('3 a');
  pass(1);
  assert.deepEqual(new Set(await Promise.all(second)), new Set([true]));
});

test('a reader that arrives just after a wake-up waits for the next one', async () => {
  const { channel, notify, pass } = setUpWithClock();
  const topics = Array.from({ length: 50 }, () => channel.subscribe('a'));
  const waiting = topics.map((topic) => topic.waitForChange(0, topic.version, { signal: NEVER }));
  notify('1 a');
  await Promise.all(waiting);
  const turn = channel.subscribe('a').waitForTurn(1, { signal: NEVER });
  pass(74);
  assert.equal(await settled(turn), false);
  pass(1);
  assert.equal(await turn, true);
});

test('polls that always find something take turns together, although there is none between them', async () => {
  const { poll, pass } = setUpWithClock();
  const polls = (): Promise<void>[] => Array.from({ length: 100 }, () => poll(0));
  const [one, ...others] = polls();
  assert.ok(await settled(Promise.resolve(one)), 'the first does not wait');
  assert.equal(await settled(Promise.race(others)), false);
  pass(2);
  await Promise.all(others);
  const next = polls();
  pass(148);
  assert.equal(await settled(Promise.race(next)), false);
  pass(1);
  await Promise.all(next);
});

test('a poll that is behind the readers that were woken does not wait', async () => {
  const { channel, notify, poll } = setUpWithClock();
  const topic = channel.subscribe('a');
  const waiting = topic.waitForChange(8, topic.version, { signal: NEVER });
  notify('9 a');
  await waiting;
  assert.equal(await settled(poll(9)), false);
  assert.equal(await settled(poll(8)), true);
  notify(null);
  assert.equal(await settled(poll(8)), false, 'what was read before may be gone');
});

test('remembers the end of a topic until it grows, also without readers', () => {
  const { channel, notify } = setUp();
  let topic = channel.subscribe('a');
  assert.equal(topic.endBehind(5), undefined);
  topic.noteEnd(5, 5, topic.version);
  topic.noteEnd(null, 5, topic.version);
  channel.unsubscribe(topic);
  notify('9 b');
  topic = channel.subscribe('a');
  assert.deepEqual(
    [5, null, 4].map((place) => topic.endBehind(place)),
    [5, 5, undefined],
  );
  channel.unsubscribe(topic);
  notify('6 a');
  topic = channel.subscribe('a');
  assert.equal(topic.endBehind(5), undefined);
});

test('does not remember an end that was read before the latest notification', () => {
  const { channel, notify } = setUp();
  const topic = channel.subscribe('a');
  const { version } = topic;
  notify('6 a');
  topic.noteEnd(5, 5, version);
  assert.equal(topic.endBehind(5), undefined);
});

test('does not know the end while it is not listening, nor after notifications may have been missed', () => {
  const { channel, notify, state } = setUp();
  const topic = channel.subscribe('a');
  topic.noteEnd(5, 5, topic.version);
  state.isListening = false;
  assert.equal(topic.endBehind(5), undefined);
  topic.noteEnd(6, 6, topic.version);
  state.isListening = true;
  assert.deepEqual([topic.endBehind(5), topic.endBehind(6)], [5, undefined]);
  notify(null);
  assert.equal(topic.endBehind(5), undefined);
});

test('remembers the end of a bounded number of topics without readers', () => {
  const { channel } = setUp();
  const read = (name: string): void => {
    const topic = channel.subscribe(name);
    topic.noteEnd(1, 1, topic.version);
    channel.unsubscribe(topic);
  };
  for (let n = 0; n <= 10_000; n += 1) read(`t${n}`);
  assert.equal(channel.subscribe('t0').endBehind(1), undefined);
  assert.equal(channel.subscribe('t1').endBehind(1), 1);
});

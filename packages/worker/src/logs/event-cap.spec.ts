import assert from 'node:assert/strict';
import { test } from 'vitest';
import { FakeClock } from '../testing/fake-clock.js';
import { EventCap, type EventLimits } from './event-cap.js';

const NEVER = new AbortController().signal;
const EVENT = { type: 'NOTE', msg: 'x' };

function makeCap(limits: Partial<EventLimits>, clock = new FakeClock()): EventCap {
  return new EventCap({ maxEvents: 1000, maxEventBytes: 1000, eventRate: 1000, ...limits }, clock);
}

async function admitted(cap: EventCap, count: number, lineBytes = 1): Promise<unknown[]> {
  const events: unknown[] = [];
  for (let i = 0; i < count; i++) events.push(await cap.admit(EVENT, lineBytes, NEVER));
  return events;
}

function dropped(why: string): object {
  return { type: 'EVENTS_DROPPED', msg: `Further events of this attempt's log are dropped: ${why}` };
}

test('drops the events beyond their number, and says so once', async () => {
  const why = 'SERVICE_WORKER_MAX_EVENTS is 2';
  assert.deepEqual(await admitted(makeCap({ maxEvents: 2 }), 5), [EVENT, EVENT, dropped(why), null, null]);
});

test('drops the events beyond their bytes, and smaller ones after that', async () => {
  const cap = makeCap({ maxEventBytes: 100 });
  const why = 'SERVICE_WORKER_MAX_EVENT_BYTES is 100';
  assert.deepEqual(await admitted(cap, 3, 50), [EVENT, EVENT, dropped(why)]);
  assert.deepEqual(await admitted(cap, 1), [null]);
});

test('makes events wait that come faster than their rate, after a burst of ten seconds', async () => {
  const clock = new FakeClock();
  const cap = makeCap({ eventRate: 2 }, clock);
  assert.equal((await admitted(cap, 20)).length, 20);
  let count = 0;
  void (async () => {
    for (;;) {
      await cap.admit(EVENT, 1, NEVER);
      count += 1;
    }
  })();
  await clock.pass(400);
  assert.equal(count, 0);
  await clock.pass(10_000);
  assert.ok(count >= 20 && count <= 21, `${count} events in 10.4 s`);
});

test('forwards nothing more, and makes nothing wait, when the run is stopped', async () => {
  const cap = makeCap({ eventRate: 0.1 });
  await cap.admit(EVENT, 1, NEVER);
  assert.equal(await cap.admit(EVENT, 1, AbortSignal.abort()), null);
});

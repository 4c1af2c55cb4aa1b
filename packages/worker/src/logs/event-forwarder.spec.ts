import assert from 'node:assert/strict';
import { test, describe, it } from 'vitest';
import { FakeClock } from '../testing/fake-clock.js';
import { EventCap, type EventLimits, RecordedEvents } from './event-forwarder.js';
import { readJson } from '@longshore/common/json/read-json';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import type { TimelineEntry } from '../service-api/service-api.js';

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

describe('RecordedEvents', () => {
  it('takes the events of the timeline in their order, each once, past entries of other senders', () => {
    const recorded = new RecordedEvents([entry(0, 'a'), entry(1, 'other'), entry(2, 'a'), entry(3, 'b')], 1);
    assert.deepEqual(taken(recorded, 'a', 'refused', 'a', 'b', 'a', 'b'), [
      true,
      false,
      true,
      true,
      false,
      false,
    ]);
  });

  it('compares payloads by their values: order of keys does not count, each digit does', () => {
    const timeline = [{ ...entry(0, 'a'), payload: payloadOf('{"y":1.0,"x":1795358081062000001}') }];
    const printed = payloadOf('{"x":1795358081062000001,"y":1}');
    const other = payloadOf('{"x":1795358081062000002,"y":1}');
    const isTaken = (payload: JsonObject) =>
      new RecordedEvents(timeline, 1).takes({ type: 'NOTE', msg: 'a', payload });
    assert.deepEqual([isTaken(printed), isTaken(other)], [true, false]);
  });

  it('takes nothing of other attempts', () => {
    const recorded = new RecordedEvents([entry(7, 'a', 1), entry(8, 'b', 2)], 2);
    assert.deepEqual(taken(recorded, 'a', 'b'), [false, true]);
  });

  it('takes nothing when the first entries of the attempt are missing: which of equal events are there is not known', () => {
    const recorded = new RecordedEvents([entry(7, 'a'), entry(8, 'a')], 1);
    assert.deepEqual(taken(recorded, 'a'), [false]);
  });
});

function entry(index: number, msg: string, attempt = 1): TimelineEntry {
  return { index, attempt, type: 'NOTE', msg, payload: {} };
}

function taken(recorded: RecordedEvents, ...msgs: readonly string[]): boolean[] {
  return msgs.map((msg) => recorded.takes({ type: 'NOTE', msg }));
}

function payloadOf(text: string): JsonObject {
  const value = readJson(Buffer.from(text));
  assert.ok(isJsonObject(value));
  return value;
}

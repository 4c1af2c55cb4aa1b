import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { readJson } from '@longshore/common/json/read-json';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import type { TimelineEntry } from '../service-api/service-api.js';
import { RecordedEvents } from './recorded-events.js';

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

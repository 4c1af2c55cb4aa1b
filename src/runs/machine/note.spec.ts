import assert from 'node:assert/strict';
import { test } from 'vitest';
import {
  accepted,
  after,
  ASSIGN,
  event,
  FAILED,
  FRESH,
  later,
  STARTED,
  decideAt,
} from './decide.fixtures.js';
import type { NoteLimits } from './attempt.js';
import type { ReportedEvent } from './run-event.js';
import type { Run } from './run.js';

const LIMITS: NoteLimits = { maxAttemptEvents: 3, maxAttemptEventBytes: 100 };

/** The types of the entries that events record one after the other, and the run afterwards. */
function record(run: Run, events: readonly ReportedEvent[]): { types: string[]; run: Run } {
  let now = run;
  const types: string[] = [];
  for (const reported of events) {
    const decision = accepted(decideAt(now, event(reported), later(60), { limits: LIMITS }));
    types.push(...decision.entries.map(({ type }) => type));
    assert.equal(decision.run.eventCount, now.eventCount + decision.entries.length);
    now = decision.run;
  }
  return { types, run: now };
}

const NOTE = { type: 'NOTE', msg: '' };
const running = after(FRESH, ASSIGN, STARTED);

test('bytes of messages and payloads are limited, and a small event after a large one is dropped, too', () => {
  const large = { type: 'NOTE', msg: '', payload: { text: 'x'.repeat(100) } };
  assert.deepEqual(record(running, [NOTE, large, NOTE, large]).types, ['NOTE', 'EVENTS_DROPPED']);
  const wide = { type: 'NOTE', msg: '€'.repeat(40) };
  assert.deepEqual(record(running, [wide]).types, ['EVENTS_DROPPED'], 'bytes, not characters');
});

test('STARTED of a running attempt counts, so that it cannot be repeated without end', () => {
  const again = { type: 'STARTED', msg: '', payload: { worker_id: 'w1' } };
  const { types, run } = record(
    running,
    Array.from({ length: 8 }, () => again),
  );
  assert.deepEqual(types, ['STARTED', 'STARTED', 'STARTED', 'EVENTS_DROPPED']);
  assert.equal(run.state, 'RUNNING');
});

test('events that change the state are recorded beyond the limit', () => {
  const full = record(
    running,
    Array.from({ length: 8 }, () => NOTE),
  ).run;
  for (const type of ['COMPLETED', 'FAILED', 'CANCELLED', 'RETRIED']) {
    assert.equal(record(full, [{ type, msg: '' }]).types[0], type);
  }
});

test('the next attempt may record as many again', () => {
  const full = record(
    running,
    Array.from({ length: 8 }, () => NOTE),
  ).run;
  const next = accepted(decideAt(full, FAILED, later(61))).run;
  assert.equal(next.attempt, 2);
  assert.deepEqual(record(next, [NOTE, NOTE, NOTE, NOTE, NOTE]).types, [
    'NOTE',
    'NOTE',
    'NOTE',
    'EVENTS_DROPPED',
  ]);
});

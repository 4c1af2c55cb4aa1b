import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import {
  accepted,
  after,
  ASSIGN,
  event,
  FRESH,
  later,
  STARTED,
  decideAt,
  FAILED,
} from './decide.fixtures.js';
import type { Run } from './run.js';
import { type NoteLimits, grownAmount } from './attempt.js';
import { type ReportedEvent, MANUAL_RETRY } from './run-event.js';
import fc from 'fast-check';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { AmountGrowth } from '../../database/entities/run.entity.js';
import type { RunCommand } from './run-command.js';

/** Assigned at 1 s, and RUNNING since 2 s as the service saw it. */
const RUNNING: Run = after(FRESH, ASSIGN, STARTED);

const at = (seconds: number): string => later(seconds).toISOString();

/** The run after an event that arrives at 100 s. */
function decided(run: Run, type: string, payload: Record<string, string>) {
  return accepted(decideAt(run, event({ type, msg: '', payload }), later(100)));
}

const ENDS = ['COMPLETED', 'FAILED'] as const;

describe('the times of a run', () => {
  test('of an attempt that is retried are those of its container, and its back-off begins with the report', () => {
    for (const cause of ['exit', 'infrastructure']) {
      const { run, endedAttempt } = decided({ ...RUNNING, backoffS: 10 }, 'FAILED', {
        cause,
        started_at: at(3),
        finished_at: at(40),
      });
      assert.deepEqual([endedAttempt?.startedAt, endedAttempt?.finishedAt], [later(3), later(40)]);
      assert.deepEqual([run.startedAt, run.finishedAt, run.queuedAt], [null, null, later(100)]);
      if (cause === 'exit') assert.deepEqual(run.notBefore, later(110));
    }
  });

  test('lie within the assignment and the report, whatever the clock of the worker says', () => {
    const cases: [string, string, number, number][] = [
      [at(-3600), at(-3500), 1, 1],
      [at(5000), at(6000), 100, 100],
      [at(-50), at(60), 1, 60],
      [at(60), at(50), 60, 60],
    ];
    for (const type of ENDS)
      for (const [started_at, finished_at, start, end] of cases) {
        const { run } = decided({ ...RUNNING, maxAttempts: 1 }, type, { started_at, finished_at });
        assert.deepEqual([run.startedAt, run.finishedAt], [later(start), later(end)]);
      }
    const assigned = after(FRESH, ASSIGN);
    for (const [given, start] of [
      [-10, 1],
      [500, 100],
    ] as const) {
      const { run } = decided(assigned, 'STARTED', { worker_id: 'w1', started_at: at(given) });
      assert.deepEqual(run.startedAt, later(start));
    }
  });

  test('count for the timeout of the attempt from the start of the container', () => {
    const { run } = decided({ ...after(FRESH, ASSIGN), attemptTimeoutS: 50 }, 'STARTED', {
      worker_id: 'w1',
      started_at: at(90),
    });
    const elapse = { type: 'elapse' } as const;
    assert.ok('rejection' in decideAt(run, elapse, later(139)));
    assert.ok(!('rejection' in decideAt(run, elapse, later(140))));
  });
});

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

const LARGEST = 2 ** 31 - 1;

describe('a grown amount', () => {
  test('is the next whole number above the exact product, up to the maximum', () => {
    for (const [amount, factor, times, expected] of [
      [100, 1.1, 1, 110],
      [100, 1.1, 2, 121],
      [1000, 1.1, 3, 1331],
      [10, 1.1, 1, 11],
      [3, 1.1, 1, 4],
      [1024, 2, 2, 4096],
      [1, 10, 9, 1_000_000_000],
      [1, 10, 10, LARGEST],
      [7, 1.000000000000001, 1, 8],
      [512, 1.5, 0, 512],
    ] as const)
      assert.equal(grownAmount(amount, { factor, max: LARGEST }, times), expected, `${amount} x ${factor}`);
    assert.equal(grownAmount(1024, { factor: 2, max: 3000 }, 2), 3000);
    assert.equal(grownAmount(1024, { factor: 2, max: 4096 }, 2), 4096);
    assert.equal(grownAmount(LARGEST, { factor: 1.000000000000001, max: LARGEST }, 999), LARGEST);
  });

  test('is by the decimal digits of the factor what integers of any size say', () => {
    const decimals = fc.integer({ min: 1, max: 12 }).chain((digits) =>
      fc.record({
        digits: fc.constant(digits),
        numerator: fc.bigInt({ min: 10n ** BigInt(digits) + 1n, max: 10n * 10n ** BigInt(digits) }),
      }),
    );
    const amounts = fc.integer({ min: 1, max: LARGEST });
    fc.assert(
      fc.property(decimals, amounts, amounts, fc.nat(40), ({ digits, numerator }, a, b, times) => {
        const text = numerator.toString();
        const factor = Number(`${text.slice(0, -digits)}.${text.slice(-digits)}`);
        const [amount, max] = [Math.min(a, b), Math.max(a, b)];
        const grown = BigInt(grownAmount(amount, { factor, max }, times));
        const scale = 10n ** BigInt(digits * times);
        const product = BigInt(amount) * numerator ** BigInt(times);
        const isNext = grown * scale >= product && (grown - 1n) * scale < product;
        assert.ok(isNext || (grown === BigInt(max) && product > BigInt(max) * scale));
      }),
    );
  });
});

/** A run that asks for 1000 MB and has eight attempts. */
const growing = (growth: Partial<AmountGrowth> = {}): Run => ({
  ...FRESH,
  maxAttempts: 8,
  ramMb: 1000,
  extraConstraints: { cpu_millis: 500, grow: { ram_mb: { factor: 2, max: 10_000, ...growth } } },
});

const failing = (payload: JsonObject): RunCommand => event({ type: 'FAILED', msg: '', payload });
const OOM = failing({ cause: 'oom', exit_code: 137 });
const patch = (state: Run['state']): RunCommand => ({ type: 'patch', keyName: 'admin', state });
const RETRY: RunCommand = { type: 'event', event: MANUAL_RETRY, reporter: {} };

/** The RAM of each attempt that the failures open. */
function amountsAfter(run: Run, ...failures: readonly RunCommand[]): number[] {
  let present = run;
  return failures.map((failure) => {
    present = { ...after(present, ASSIGN, STARTED, failure), notBefore: null };
    return present.ramMb;
  });
}

describe('the RAM of an attempt', () => {
  test('grows with each failure for lack of it, and keeps what else the run asks for', () => {
    assert.deepEqual(amountsAfter(growing(), OOM, OOM, OOM, OOM, OOM), [2000, 4000, 8000, 10_000, 10_000]);
    const { extraConstraints } = after(growing(), ASSIGN, OOM);
    assert.deepEqual(extraConstraints, {
      ...growing().extraConstraints,
      grown: { ram_mb: 1000, failures: 1 },
    });
  });

  test('is that of the whole number of failures, not of amounts that were rounded', () => {
    const run = { ...growing({ factor: 1.1 }), ramMb: 1 };
    assert.deepEqual(amountsAfter(run, OOM, OOM, OOM, OOM, OOM, OOM), [2, 2, 2, 2, 2, 2]);
    assert.deepEqual(amountsAfter({ ...run, ramMb: 5 }, OOM, OOM, OOM), [6, 7, 7]);
  });

  test('grows by no other failure, unless the policy names its cause or its exit code', () => {
    const [exit, timeout] = [failing({ cause: 'exit', exit_code: 75 }), failing({ cause: 'timeout' })];
    assert.deepEqual(amountsAfter(growing(), exit, timeout, failing({}), OOM), [1000, 1000, 1000, 2000]);
    const named = growing({ on: ['timeout', 'exit:70-79'] });
    assert.deepEqual(amountsAfter(named, exit, OOM, timeout, failing({})), [2000, 2000, 4000, 4000]);
    assert.deepEqual(amountsAfter(growing({ on: [] }), OOM, exit), [1000, 1000]);
  });

  test('grows by no failure of the infrastructure, whatever its exit code, and by no lost worker', () => {
    const run = growing({ on: ['oom', 'exit:0-255'] });
    const lost = failing({ cause: 'infrastructure', exit_code: 137 });
    assert.deepEqual(amountsAfter(run, lost, OOM, lost, OOM), [1000, 2000, 2000, 4000]);
    const { attempt } = after(run, ASSIGN, OOM);
    const reclaim = { type: 'reclaim', workerId: 'w1', attempt, lastHeartbeatAt: null } as const;
    assert.equal(after(run, ASSIGN, OOM, ASSIGN, reclaim).ramMb, 2000);
  });

  test("stays with the attempt after an admin's PATCH, which opens no other one", () => {
    const failed = after({ ...growing(), maxAttempts: 1 }, ASSIGN, OOM);
    assert.equal(after(failed, patch('PENDING')).ramMb, 1000);
    assert.equal(after(failed, patch('PENDING'), RETRY).ramMb, 1000);
    assert.equal(after(failed, patch('COMPLETED'), RETRY).ramMb, 1000);
    assert.equal(after(growing(), patch('FAILED'), RETRY).ramMb, 1000);
  });
});

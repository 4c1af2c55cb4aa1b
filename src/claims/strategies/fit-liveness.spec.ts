import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import type { HeldRun, QueuedRun } from '../../runs/scheduling-strategy.js';
import { FitStrategy } from './fit.strategy.js';
import { claimant, heldBy, NOW, queued } from './strategy.fixtures.js';

/** An endless stream of small runs behind a large one. */
interface Stream {
  readonly workers: number;
  readonly cpu: number;
  readonly reserveAfter: number;
  /** Seconds that the small runs take, again and again. */
  readonly durations: readonly number[];
}

const LONGEST = 8;

/**
 * Plays the stream second by second: every worker claims once a second and small runs never run out. Answers the
 * second in which the run that wants a whole worker is handed out, or null.
 */
function secondOfBigRun({ workers, cpu, reserveAfter, durations }: Stream, seconds: number): number | null {
  const fit = new FitStrategy(reserveAfter);
  const running = new Map<string, { run: HeldRun; end: number }[]>();
  const names = Array.from({ length: workers }, (_, i) => `w${i}`);
  let started = 0;
  let big: QueuedRun = queued('big', { cpu });
  // Nobody is idle when the run arrives.
  for (const name of names) running.set(name, [{ run: heldBy(name, 'first', { cpu: 1 }), end: 2 }]);
  for (let second = 0; second < seconds; second += 1) {
    const now = new Date(NOW.getTime() + second * 1000);
    for (const name of names) {
      const left = (running.get(name) ?? []).filter(({ end }) => end > second);
      const worker = claimant(
        name,
        { cpu },
        left.map(({ run }) => run),
      );
      const small = Array.from({ length: cpu }, (_, i) => queued(`small-${second}-${i}`, { cpu: 1 }));
      const { assignments, reservations, passedOver } = fit.choose([worker], [big, ...small], {
        now,
        reachable: new Set(names),
      });
      if (assignments.some(({ runId }) => runId === 'big')) return second;
      for (const { runId } of assignments) {
        const end = second + (durations[started % durations.length] ?? 1);
        left.push({ run: heldBy(name, runId, { cpu: 1 }), end });
        started += 1;
      }
      running.set(name, left);
      if (passedOver?.includes('big')) big = { ...big, passedOverAt: now };
      for (const { workerId } of reservations ?? []) big = { ...big, reservedFor: workerId };
    }
  }
  return null;
}

describe('a large run among endless small ones', () => {
  const stream = fc.record({
    workers: fc.integer({ min: 1, max: 4 }),
    cpu: fc.integer({ min: 2, max: 6 }),
    reserveAfter: fc.integer({ min: 0, max: 30 }),
    durations: fc.array(fc.integer({ min: 2, max: LONGEST }), { minLength: 1, maxLength: 7 }),
  });

  it('starts within one small run of the time for which it may be passed over', () => {
    fc.assert(
      fc.property(stream, (given) => {
        const bound = given.reserveAfter + LONGEST + 2;
        const second = secondOfBigRun(given, 200);
        assert.ok(second !== null && second <= bound, `${second} is at most ${bound}`);
      }),
    );
  });

  it('would never start without a reservation', () => {
    const given = { workers: 2, cpu: 2, durations: [3] };
    assert.notEqual(secondOfBigRun({ ...given, reserveAfter: 10 }, 2000), null);
    assert.equal(secondOfBigRun({ ...given, reserveAfter: 31_536_000 }, 2000), null);
  });
});

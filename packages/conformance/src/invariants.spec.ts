import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Exchange } from './exchange.js';
import { checkInvariants } from './invariants.js';
import { RuleViolation } from './scenario.js';

const JOB = { engine: 'slurm', engine_id: '42' };

/** A report that the service has accepted. */
function report(type: string, payload: object, attempt = 1): Exchange {
  return {
    atMs: 0,
    method: 'POST',
    path: '/runs/r/events',
    query: new URLSearchParams(),
    headers: { 'x-worker-id': 'w', 'x-run-attempt': String(attempt) },
    body: { type, msg: '', payload },
    answer: { status: 204, body: undefined, retryAfterS: 0 },
    delivered: true,
    doneAtMs: 0,
    hungUpAtMs: null,
  };
}

const STARTED = report('STARTED', { worker_id: 'w' });

function checkReports(...reports: readonly Exchange[]): void {
  checkInvariants(reports, { workerTimeoutS: 3, firstSignalMs: Infinity });
}

describe('the invariants of SUBMITTED', () => {
  it('accept reasons that change, and one job for each attempt', () => {
    checkReports(
      report('SUBMITTED', JOB),
      report('SUBMITTED', { ...JOB, reason: 'Priority' }),
      STARTED,
      report('SUBMITTED', { ...JOB, engine_id: '43' }, 2),
    );
  });

  for (const [rule, reports, problem] of [
    ['an engine', [report('SUBMITTED', { engine_id: '42' })], /the engine of SUBMITTED is undefined/],
    ['the id of the job as a text', [report('SUBMITTED', { ...JOB, engine_id: 42 })], /the engine_id .* 42$/],
    ['no empty reason', [report('SUBMITTED', { ...JOB, reason: '' })], /the reason of SUBMITTED is ""/],
    ['that it precedes STARTED', [STARTED, report('SUBMITTED', JOB)], /reported after STARTED/],
    [
      'one job for an attempt',
      [report('SUBMITTED', JOB), report('SUBMITTED', { ...JOB, engine_id: '43' })],
      /submitted twice, as 42 and as 43/,
    ],
  ] as const) {
    it(`require ${rule}`, () => {
      assert.throws(
        () => checkReports(...reports),
        (error) => error instanceof RuleViolation && problem.test(error.message),
      );
    });
  }
});

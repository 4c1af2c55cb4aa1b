import assert from 'node:assert/strict';
import { test } from 'vitest';
import { CONTENDED, CONTENDED_REPLAY, EMPTY, type ClaimOutcome } from '../runs/journal/command.js';
import { JournalOverloaded } from '../runs/run.errors.js';
import type { DataSource } from 'typeorm';
import type { IdempotencyRepository } from '../runs/idempotency/idempotency.repository.js';
import type { WorkerPool } from '../workers/pool/worker-pool.js';
import { ClaimService, type EndedClaim } from './claim.service.js';
import type { WaitingClaims } from './waiting-claims.js';

/** Claims without a wait; the journal answers with these outcomes in turn. */
function claiming(outcomes: ClaimOutcome[]): Promise<EndedClaim> {
  /* oxlint-disable typescript/no-unsafe-type-assertion -- all that a claim without a wait uses */
  const service = new ClaimService(
    {} as WorkerPool,
    { claim: () => Promise.resolve(outcomes.shift() ?? EMPTY) },
    {} as WaitingClaims,
    {} as IdempotencyRepository,
    {} as DataSource,
  );
  /* oxlint-enable typescript/no-unsafe-type-assertion */
  return service.claim({ workerId: 'w', waitMs: 0, signal: new AbortController().signal });
}

const forever = (outcome: ClaimOutcome): ClaimOutcome[] => Array.from({ length: 100 }, () => outcome);

test('a repeated claim whose runs do not fit into a commit is tried again', async () => {
  const { kind } = await claiming([CONTENDED_REPLAY, CONTENDED_REPLAY, { kind: 'replayed', runs: [] }]);
  assert.equal(kind, 'replayed');
});

test('a repeated claim whose runs never fit is refused: an empty answer would say that it has none', async () => {
  await assert.rejects(claiming(forever(CONTENDED_REPLAY)), (error: unknown) => {
    assert.ok(error instanceof JournalOverloaded);
    assert.equal(error.message, 'Too many requests are waiting');
    return true;
  });
});

test('a claim that was never served ends empty when other transactions keep the runs', async () => {
  assert.equal((await claiming(forever(CONTENDED))).kind, 'contended');
});

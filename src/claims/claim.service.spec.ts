import assert from 'node:assert/strict';
import { test } from 'vitest';
import { EMPTY, POSTPONED, type ClaimOutcome } from '../runs/journal/claim.js';
import { JournalOverloaded } from '../runs/run.errors.js';
import type { WorkerPool } from '../workers/pool/worker-pool.js';
import { DirectStrategy } from './strategies/direct.strategy.js';
import { ClaimService } from './claim.service.js';
import type { EmptyClaimPredictor } from './empty-claim-predictor.js';
import type { WaitingClaims } from './waiting-claims.js';

/** Claims without a wait; the journal answers with these outcomes in turn. */
function claiming(outcomes: ClaimOutcome[]): Promise<ClaimOutcome> {
  /* oxlint-disable typescript/no-unsafe-type-assertion -- all that a claim without a wait uses */
  const predictor = {
    claim: () => Promise.resolve(outcomes.shift() ?? EMPTY),
  } as Partial<EmptyClaimPredictor>;
  const service = new ClaimService(
    {} as WorkerPool,
    predictor as EmptyClaimPredictor,
    {} as WaitingClaims,
    new DirectStrategy(),
  );
  /* oxlint-enable typescript/no-unsafe-type-assertion */
  return service.claim({ workerId: 'w', waitMs: 0, signal: new AbortController().signal });
}

test('a repeated claim whose runs do not fit into a commit is tried again', async () => {
  const replayed: ClaimOutcome = { kind: 'replayed', runs: [] };
  assert.equal(await claiming([POSTPONED, POSTPONED, replayed]), replayed);
});

test('a repeated claim whose runs never fit is refused: an empty answer would say that it has none', async () => {
  const refused = claiming([POSTPONED, POSTPONED, POSTPONED, POSTPONED]);
  await assert.rejects(refused, (error: unknown) => {
    assert.ok(error instanceof JournalOverloaded);
    assert.equal(error.message, 'Too many requests are waiting: SERVICE_MAX_ANSWER_BYTES is reached');
    return true;
  });
});

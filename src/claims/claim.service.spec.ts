import assert from 'node:assert/strict';
import { test } from 'vitest';
import { CONTENDED, CONTENDED_REPLAY, EMPTY, type ClaimOutcome } from '../runs/journal/command.js';
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
    record: () => ({ servedBy: null, end: () => undefined }),
  } as Partial<EmptyClaimPredictor>;
  const service = new ClaimService(
    {} as WorkerPool,
    { claim: () => Promise.resolve(outcomes.shift() ?? EMPTY) },
    predictor as EmptyClaimPredictor,
    {} as WaitingClaims,
    new DirectStrategy(),
  );
  /* oxlint-enable typescript/no-unsafe-type-assertion */
  return service.claim({ workerId: 'w', waitMs: 0, signal: new AbortController().signal });
}

const forever = (outcome: ClaimOutcome): ClaimOutcome[] => Array.from({ length: 100 }, () => outcome);

test('a repeated claim whose runs do not fit into a commit is tried again', async () => {
  const replayed: ClaimOutcome = { kind: 'replayed', runs: [] };
  assert.equal(await claiming([CONTENDED_REPLAY, CONTENDED_REPLAY, replayed]), replayed);
});

test('a repeated claim whose runs never fit is refused: an empty answer would say that it has none', async () => {
  await assert.rejects(claiming(forever(CONTENDED_REPLAY)), (error: unknown) => {
    assert.ok(error instanceof JournalOverloaded);
    assert.equal(error.message, 'Too many requests are waiting');
    return true;
  });
});

test('a claim that was never served ends empty when other transactions keep the runs', async () => {
  assert.deepEqual(await claiming(forever(CONTENDED)), CONTENDED);
});

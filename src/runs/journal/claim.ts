import type { Caller } from '../../auth/access.js';
import type { Run } from '../machine/run.js';
import type { ClaimContext, ClaimingWorker } from '../scheduling-strategy.js';
import type { ClaimedFields } from '../storage/run.repository.js';
import type { Idempotency } from '../idempotency/idempotency-ledger.js';

export interface Claim {
  readonly workerId: string;
  /** Maximum number of runs; undefined: the strategy decides. */
  readonly max?: number | undefined;
  readonly context: ClaimContext;
  readonly idempotency?: Idempotency | undefined;
  readonly caller?: Pick<Caller, 'id'> | undefined;
  /** Name of this process for the notice of the commit, if the claim is served under a key; null: it is not to be announced. */
  readonly servedBy?: string | null;
  /** Called with the worker as it is when runs are assigned; false refuses the claim. */
  readonly accepts?: (worker: ClaimingWorker) => boolean;
  /** False when the caller has disconnected; called when runs are assigned. */
  readonly stillWanted: () => boolean;
}

/** A run that a claim assigned, with the other fields that its worker needs. */
export interface ClaimedRun extends ClaimedFields {
  readonly run: Run;
}

/**
 * Result of a claim. `replayed`: the runs of an earlier claim with the same key that the worker still holds.
 * `empty`: no run for this worker. `contended`: there may be one, but this commit could not have it; try again.
 * `refused`: the worker is unknown, inactive or draining, the claim does not accept it, or the caller has disconnected.
 */
export interface ClaimOutcome {
  readonly kind: 'served' | 'replayed' | 'empty' | 'contended' | 'refused';
  readonly runs: readonly ClaimedRun[];
  /** True of a contended claim if an earlier one with its key has got runs, which an empty answer would deny. */
  readonly isReplay?: true;
}

export const EMPTY: ClaimOutcome = { kind: 'empty', runs: [] };
export const CONTENDED: ClaimOutcome = { kind: 'contended', runs: [] };
export const CONTENDED_REPLAY: ClaimOutcome = { kind: 'contended', runs: [], isReplay: true };
export const REFUSED: ClaimOutcome = { kind: 'refused', runs: [] };

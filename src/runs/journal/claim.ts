import type { JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { Run } from '../machine/run.js';
import type { ClaimContext } from '../scheduling-strategy.js';
import type { Idempotency } from './idempotency-ledger.js';

/** A worker's wish for work. */
export interface Claim {
  readonly workerId: string;
  /** Runs to be given at most; undefined: as many as the strategy gives to a claim. */
  readonly max?: number | undefined;
  readonly desk: ClaimContext;
  readonly idempotency?: Idempotency | undefined;
  /** What the commit is to announce on SERVED_CHANNEL if it serves this claim and keeps its key. */
  readonly announcement?: string | null;
  /** Asked at the moment of handing out: false when the caller has gone away. */
  readonly stillWanted: () => boolean;
}

/** A run that a claim got. */
export interface ClaimedRun {
  readonly run: Run;
  readonly image: string;
  readonly inputs: JsonObject;
  /** Where in a trace the run belongs; null: nobody traces it. */
  readonly trace: TraceContext | null;
}

/** The place in a trace that a run's row names, if it names one. */
export function traceOfRow({ traceparent, tracestate }: TraceColumns): TraceContext | null {
  return traceparent === null ? null : { traceparent, tracestate };
}

interface TraceColumns {
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

/**
 * What became of a claim. `replayed`: the runs of an earlier claim with the same key that are still with the worker.
 * `nothing`: no run for this worker. `contended`: there may be one, but others were at it; worth another try.
 * `refused`: the worker is unknown, inactive or draining, or its caller has gone.
 */
export interface ClaimOutcome {
  readonly kind: 'served' | 'replayed' | 'nothing' | 'contended' | 'refused';
  readonly runs: readonly ClaimedRun[];
}

export const NOTHING: ClaimOutcome = { kind: 'nothing', runs: [] };
export const CONTENDED: ClaimOutcome = { kind: 'contended', runs: [] };
export const REFUSED: ClaimOutcome = { kind: 'refused', runs: [] };

import type { Run } from './run-machine/run.js';

/** A GPU of a worker. */
export interface Gpu {
  readonly id: number;
  readonly vramMb: number;
  readonly tags: readonly string[];
}

/** A worker that asks for work, as its last heartbeat described it. */
export interface ClaimingWorker {
  readonly id: string;
  readonly cpuCores: number;
  readonly ramMb: number;
  readonly gpus: readonly Gpu[];
  readonly tags: readonly string[];
}

/** One run for one claim. */
export interface Assignment {
  /** Index of the claim in the list that the strategy was given. */
  readonly claim: number;
  readonly runId: string;
  /** The GPU that the run is to use, or null. */
  readonly gpuId: number | null;
}

/**
 * Decides which pending runs go to which claims. Pure: it sees locked candidates and names assignments; the journal
 * carries them out. A run may be named once; a claim may get several runs or none.
 */
export interface SchedulingStrategy {
  /** The name that SERVICE_SCHEDULER selects it by. */
  readonly name: string;
  /** How many runs of the queue's head it wants to see for this many claims; at least 1. */
  candidatesFor(claims: number): number;
  /** @param candidates pending runs by priority descending, then age, then id */
  choose(claims: readonly ClaimingWorker[], candidates: readonly Run[]): readonly Assignment[];
}

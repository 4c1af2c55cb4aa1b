import { WorkerPool } from './worker-pool.js';

/** Milliseconds after which a silent worker is forgotten. */
export const FORGET_AFTER_MS = 24 * 60 * 60 * 1000;

/** A pool with the work of the scheduled job `worker_retention`. */
export abstract class PrunablePool extends WorkerPool {
  /**
   * Removes what is left of workers that were silent for 24 hours, drains included, in bounded batches. Several
   * processes may do so at once.
   * @param stop ends it between two batches
   * @returns how many workers and drains it removed
   */
  abstract forget(stop?: AbortSignal): Promise<number>;
}

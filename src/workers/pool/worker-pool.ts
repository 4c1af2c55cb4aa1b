import type { JsonObject } from '../../json/json-value.js';
import type { ClaimingWorker } from '../../runs/scheduling-strategy.js';

/** A run that a worker says it is executing. */
export interface ReportedRun {
  readonly id: string;
  readonly image: string;
  readonly inputs: JsonObject;
  readonly constraints: JsonObject;
}

/** What a worker says of itself. Running runs that are left out keep what was said before. */
export interface Heartbeat extends ClaimingWorker {
  readonly runningOps?: readonly ReportedRun[] | undefined;
}

/** A worker as the pool knows it. */
export interface PooledWorker extends ClaimingWorker {
  readonly runningOps: readonly ReportedRun[];
  /** Time of the first heartbeat. */
  readonly createdAt: Date;
  /** Time of the newest heartbeat. */
  readonly lastHeartbeatAt: Date;
  /** True while the newest heartbeat lies within the worker timeout. */
  readonly isActive: boolean;
}

/**
 * The registered workers. Ephemeral: it starts empty and is never part of a backup. Workers that were silent for
 * 24 hours are forgotten.
 */
export abstract class WorkerPool {
  /** Registers the worker or refreshes it. */
  abstract heartbeat(heartbeat: Heartbeat): Promise<PooledWorker>;
  /** The worker, active or not; null when it never reported. */
  abstract find(id: string): Promise<PooledWorker | null>;
  /** All registered workers, active or not, by id. */
  abstract list(): Promise<PooledWorker[]>;
}

import type { SqlExecutor } from '../../database/sql.js';
import type { JsonObject } from '@longshore/common/json/json-value';
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
  /** True while an admin keeps it from claiming. */
  readonly isDraining: boolean;
}

/** A run that a worker is said to hold. */
export interface Holding {
  readonly runId: string;
  readonly workerId: string;
}

/** A worker that has been silent for longer than the timeout, or that nobody knows. */
export interface SilentWorker {
  readonly id: string;
  /** Null: it has never reported to this pool. */
  readonly lastHeartbeatAt: Date | null;
}

/** Workers by how they are; each is in one of the groups, a silent one is stale, draining or not. */
export const WORKER_GROUPS = ['active', 'draining', 'stale'] as const;
export type WorkerGroup = (typeof WORKER_GROUPS)[number];

/** How many workers are in each group. */
export type WorkerCounts = Readonly<Record<WorkerGroup, number>>;

/** The group of a worker. */
export function groupOf({
  isActive,
  isDraining,
}: Pick<PooledWorker, 'isActive' | 'isDraining'>): WorkerGroup {
  if (!isActive) return 'stale';
  return isDraining ? 'draining' : 'active';
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
  /**
   * Those of the workers that are registered, active or not, by id.
   * @param executor what a pool in the database is to be asked by; a connection of its own unless given
   */
  abstract findAll(
    ids: readonly string[],
    executor?: SqlExecutor,
  ): Promise<ReadonlyMap<string, PooledWorker>>;
  /** All registered workers, active or not, by id. */
  abstract list(): Promise<PooledWorker[]>;
  /** How many there are, by group. */
  abstract count(): Promise<WorkerCounts>;
  /** Keeps a worker from claiming, or lets it claim again; null when it never reported. Outlasts restarts. */
  abstract setDraining(id: string, draining: boolean): Promise<PooledWorker | null>;
  /** Those of the workers that are silent for longer than the timeout, or not registered at all. */
  abstract findSilent(ids: readonly string[]): Promise<SilentWorker[]>;
  /**
   * Those of the holdings whose worker, in at least two reports of its running runs during the last timeout, has
   * named the run in none of them.
   */
  abstract findUnreported(holdings: readonly Holding[]): Promise<Holding[]>;
}

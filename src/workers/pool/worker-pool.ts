import type { Ability } from '../../runs/machine/event-types.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Author } from '../../auth/audit-log.js';
import type { SqlExecutor } from '../../database/sql/sql.js';
import type { ClaimingWorker } from '../../runs/scheduling-strategy.js';

/** Milliseconds without a heartbeat after which a worker is removed. */
export const FORGET_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * The same for one that never had a run, unless two worker timeouts are longer: nobody looks for it, and whoever invents workers
 * makes such ones.
 */
export const FORGET_IDLE_AFTER_MS = 60 * 60 * 1000;

/** Milliseconds without a heartbeat after which a worker that never had a run is removed. */
export function idleForgetMs(timeoutMs: number): number {
  return Math.min(FORGET_AFTER_MS, Math.max(FORGET_IDLE_AFTER_MS, FULL_POOL_TIMEOUTS * timeoutMs));
}

/** Worker timeouts without a heartbeat after which a full pool removes a worker: the reaper has reclaimed its runs. */
export const FULL_POOL_TIMEOUTS = 2;

/** The key of workers that no request has registered. */
export const NO_KEY = '00000000-0000-0000-0000-000000000000';

/** See the settings of these names. */
export interface PoolLimits {
  readonly maxWorkers: number;
  readonly maxWorkersPerKey: number;
  /** Bytes of what a worker says of itself, and of the running runs that are shown of it. */
  readonly maxWorkerBytes: number;
}

export interface RunningOp {
  readonly id: string;
  /** 1-based; absent: not reported. */
  readonly attempt?: number | undefined;
  readonly image: string;
  readonly inputs: JsonObject;
  readonly constraints: JsonObject;
}

/** The jobs of a launcher, a worker that submits its runs to an engine of another kind, such as Kubernetes or Slurm. */
export interface EngineJobs {
  /** Name of the engine. */
  readonly name: string;
  /** Submitted jobs whose container does not run yet. */
  readonly pending: number;
  readonly running: number;
}

/** The container engine of a worker, for display. */
export interface ContainerEngine {
  readonly name: string;
  readonly version: string;
  /** The OCI runtime that containers get. */
  readonly runtime: string;
  /** Null: unknown. */
  readonly runtime_version: string | null;
}

/** Why a worker says that it does not claim. `draining`: it shuts down. */
export const NOT_CLAIMING_REASONS = [
  'draining',
  'recovering',
  'engine_paused',
  'disk_full',
  'key_refused',
] as const;

/** A reason of a worker why it does not claim, in its newest heartbeat. */
export interface NotClaiming {
  readonly reason: (typeof NOT_CLAIMING_REASONS)[number];
  /** In the worker's words; may be empty. */
  readonly message: string;
}

/** What a worker says that its machine is unable to do at present, in its newest heartbeat. */
export interface Unable {
  readonly ability: Ability;
  /** Why, in the worker's words; may be empty. */
  readonly message: string;
}

/** How many active workers say that they are unable. */
export type UnableCounts = Readonly<Record<Ability, number>>;

export function noneUnable(): Record<Ability, number> {
  return { gpus: 0, ram_limit: 0, cpu_limit: 0, pids_limit: 0 };
}

/** A worker's description of itself. Without running runs, those of the heartbeat before stay. */
export interface Heartbeat extends ClaimingWorker {
  /** Null: the worker executes its runs itself. */
  readonly engine: EngineJobs | null;
  /** Null: it has none, or does not say. */
  readonly containerEngine: ContainerEngine | null;
  /** Empty: it claims, or does not say. */
  readonly notClaiming: readonly NotClaiming[];
  readonly unable: readonly Unable[];
  readonly runningOps?: readonly RunningOp[] | undefined;
  /** Milliseconds for which the worker will be away; absent: it is here. */
  readonly awayMs?: number | undefined;
}

export interface PooledWorker extends ClaimingWorker {
  /** As in its last heartbeat. */
  readonly engine: EngineJobs | null;
  readonly containerEngine: ContainerEngine | null;
  readonly notClaiming: readonly NotClaiming[];
  readonly unable: readonly Unable[];
  readonly runningOps: readonly RunningOp[];
  /** Time of the first heartbeat. */
  readonly createdAt: Date;
  readonly lastHeartbeatAt: Date;
  /** Whether the last heartbeat lies within the worker timeout, and the worker is not away. */
  readonly isActive: boolean;
  readonly isDraining: boolean;
  /** Until when the worker keeps its runs without heartbeats, as it has said; null: it is not away. */
  readonly awayUntil: Date | null;
}

export interface Holding {
  readonly runId: string;
  readonly workerId: string;
}

/** A worker that is stale or not registered, and not away. */
export interface SilentWorker {
  readonly id: string;
  /** Null: not registered. */
  readonly lastHeartbeatAt: Date | null;
}

/** Every worker is in one group: `away` goes before `stale`, that before `draining`, and that before `not_claiming`. */
export const WORKER_GROUPS = ['active', 'draining', 'not_claiming', 'away', 'stale'] as const;
export type WorkerGroup = (typeof WORKER_GROUPS)[number];
export type WorkerCounts = Readonly<Record<WorkerGroup, number>>;

export function noWorkers(): Record<WorkerGroup, number> {
  return { active: 0, draining: 0, not_claiming: 0, away: 0, stale: 0 };
}

type Standing = Pick<PooledWorker, 'isActive' | 'isDraining' | 'notClaiming' | 'awayUntil'>;

export function groupOf({ isActive, isDraining, notClaiming, awayUntil }: Standing): WorkerGroup {
  if (!isActive) return awayUntil === null ? 'stale' : 'away';
  if (isDraining) return 'draining';
  return notClaiming.length > 0 ? 'not_claiming' : 'active';
}

/** Whether the worker counts as able to take runs: it is active, not draining, and does not say that it claims nothing. */
export function takesRuns(worker: Standing): boolean {
  return groupOf(worker) === 'active';
}

/** The registered workers: not durable, and not part of a backup. Drains and absences are durable. */
export abstract class WorkerPool {
  /**
   * Registers a worker or refreshes it. @param keyId API key (UUID) whose worker it then is; {@link NO_KEY} unless given
   * @throws OverLimit if the worker is not registered and the pool is full, or the key has too many
   */
  abstract heartbeat(heartbeat: Heartbeat, keyId?: string): Promise<PooledWorker>;
  abstract find(id: string): Promise<PooledWorker | null>;
  /** The registered ones of the workers, by id. @param executor connection for a pool in the database */
  abstract findAll(
    ids: readonly string[],
    executor?: SqlExecutor,
  ): Promise<ReadonlyMap<string, PooledWorker>>;
  /** All registered workers, ordered by id. @param executor connection for a pool in the database */
  abstract list(executor?: SqlExecutor): Promise<PooledWorker[]>;
  /** The registered workers with the next ids after one, at most so many. */
  abstract listAfter(id: string, limit: number): Promise<PooledWorker[]>;
  abstract count(): Promise<WorkerCounts>;
  abstract countUnable(): Promise<UnableCounts>;
  /** The engines of active workers, those with the most jobs first, then by name. */
  abstract listEngines(limit: number): Promise<EngineUse[]>;
  /** Removes a worker from the list, which a later heartbeat brings back; its drain stays. */
  abstract remove(id: string): Promise<void>;
  /** Starts or ends a drain; null for a worker that is not registered. @param by author of an entry in the audit log */
  abstract setDraining(id: string, draining: boolean, by: Author): Promise<PooledWorker | null>;
  /** Those of the workers that are stale or not registered, and not away. */
  abstract findSilent(ids: readonly string[]): Promise<SilentWorker[]>;
  /** Those whose worker sent at least two reports of its running runs during the last timeout, none with the run. */
  abstract findUnreported(holdings: readonly Holding[]): Promise<Holding[]>;
  /** Removes workers without a heartbeat for 24 hours, or an hour if they never had a run, and drains, in batches. @returns their number */
  abstract forget(stop?: AbortSignal): Promise<number>;
}

/**
 * Those of the workers that may get runs, by id: active and not draining. One that claims now may do so whatever its last heartbeat
 * says. @param executor connection for a pool in the database
 */
export async function findClaiming(
  pool: Pick<WorkerPool, 'findAll'>,
  ids: readonly string[],
  executor: SqlExecutor,
): Promise<ReadonlyMap<string, PooledWorker>> {
  const found = await pool.findAll(ids, executor);
  return new Map([...found].filter(([, { isActive, isDraining }]) => isActive && !isDraining));
}

/** The jobs of all active launchers with one kind of engine. */
export interface EngineUse extends EngineJobs {
  readonly launchers: number;
}

/** The engines of active workers, those with the most jobs first, then by name. */
export function summariseEngines(
  workers: Iterable<Pick<PooledWorker, 'engine' | 'isActive'>>,
  limit: number,
): EngineUse[] {
  const uses = new Map<string, EngineUse>();
  for (const { engine, isActive } of workers) {
    if (!isActive || engine === null) continue;
    const { name } = engine;
    const { launchers, pending, running } = uses.get(name) ?? { launchers: 0, pending: 0, running: 0 };
    uses.set(name, {
      name,
      launchers: launchers + 1,
      pending: pending + engine.pending,
      running: running + engine.running,
    });
  }
  const jobsOf = ({ pending, running }: EngineUse): number => pending + running;
  const byJobs = (a: EngineUse, b: EngineUse): number => jobsOf(b) - jobsOf(a) || (a.name < b.name ? -1 : 1);
  return [...uses.values()].toSorted(byJobs).slice(0, limit);
}

import { cpuMillisOf, gpusOf, gpuTagsOf, type Run } from './machine/run.js';

export interface Gpu {
  readonly id: number;
  readonly vramMb: number;
  readonly tags: readonly string[];
}

/** A worker that claims, as in its last heartbeat. */
export interface ClaimingWorker {
  readonly id: string;
  readonly cpuCores: number;
  readonly ramMb: number;
  readonly gpus: readonly Gpu[];
  readonly tags: readonly string[];
  /** What it can do beyond the least that the protocol asks for. */
  readonly capabilities: readonly string[];
}

/** Amounts of resources, such as those that a run asks for. */
export interface Shape {
  /** Thousandths of a core. */
  readonly cpuMillis: number;
  readonly ramMb: number;
  /** GPU memory in MB: on one GPU, or on each of `gpus`. */
  readonly vramMb: number;
  /** Whole GPUs, which no other run may use; 0: a share of one, by its memory. */
  readonly gpus: number;
}

/** What a run asks for. */
export interface Needs extends Shape {
  /** Tags that each of its GPUs must have. */
  readonly gpuTags?: readonly string[];
}

type ConstrainedRun = Pick<Run, 'cpu' | 'extraConstraints' | 'ramMb' | 'vramMb'>;

/** The amounts that a run asks for; 0: no requirement. */
export function shapeOf(run: ConstrainedRun): Shape {
  return { cpuMillis: cpuMillisOf(run), ramMb: run.ramMb, vramMb: run.vramMb, gpus: gpusOf(run) };
}

/** What a run asks for. */
export function needsOf(run: ConstrainedRun): Needs {
  return { ...shapeOf(run), gpuTags: gpuTagsOf(run) };
}

/** A run that is assigned to a worker or running there, or whose program ends there, and the resources that it takes. */
export interface HeldRun extends Shape {
  readonly runId: string;
  readonly workerId: string;
  /** The GPUs that it uses; empty: none, or unknown. */
  readonly gpuIds: readonly number[];
  /** Whether the run was taken from the worker, whose program of it may still be executed; absent: no. */
  readonly isEnding?: boolean;
}

/** A worker together with the runs it holds. */
export interface Claimant extends ClaimingWorker {
  /** Empty for a FIFO strategy. */
  readonly held: readonly HeldRun[];
  /** Runs that the claim gets, at most; absent: the strategy decides. */
  readonly max?: number | undefined;
  /** Id of the run that the worker is reserved for; null or absent: none, or `choose` finds it in the candidates. */
  readonly keptFor?: string | null;
}

export interface QueuedRun extends Run {
  /** Since when later runs have been assigned before this one; null: never. */
  readonly passedOverAt: Date | null;
  /** The worker that is reserved for this run; null: none. */
  readonly reservedFor: string | null;
}

/**
 * The candidates that a strategy asks for: several parts of the queue, joined in queue order. Runs that a claimant is
 * reserved for are always among them.
 */
export interface CandidateQuery {
  /** Runs of each part, at most; at least 1. */
  readonly limit: number;
  /** For each shape, the first runs that fit into it; absent: the first runs of any shape. */
  readonly capacity?: readonly Shape[];
  /** Also, for each shape, the first runs that fit into it. */
  readonly free?: readonly Shape[];
  /** Also the first runs within `capacity` that were passed over before this time. */
  readonly passedOverBefore?: Date;
}

export interface Obstacle {
  /** `cpu`, `ram_mb`, `vram_mb`, `gpus`, or a name that the strategy defines. */
  readonly resource: string;
  /** What the run asks for; of `cpu` in cores. */
  readonly needed: number;
  /** What is left of the worker. */
  readonly free: number;
  readonly total: number;
}

/** One run for one claim. */
export interface Assignment {
  /** Index in the list of claimants. */
  readonly claim: number;
  readonly runId: string;
  /** The GPU that the run is to use, or null. */
  readonly gpuId: number | null;
  /** The GPUs that it is to use, of a run that asks for whole ones; `gpuId` is the first. */
  readonly gpuIds?: readonly number[] | undefined;
}

/** Reserves a worker for a run; null ends the reservation. */
export interface Reservation {
  readonly runId: string;
  readonly workerId: string | null;
}

export interface Choice {
  /** Each run at most once; a claim may get several runs or none. */
  readonly assignments: readonly Assignment[];
  readonly reservations?: readonly Reservation[];
  /** Ids of runs that were passed over; the first time is stored. */
  readonly passedOver?: readonly string[];
}

export interface ChoiceContext {
  /** The database's time. */
  readonly now: Date;
  /** Of the workers that candidates are reserved for: the ids of those that are active and not draining. */
  readonly reachable: ReadonlySet<string>;
}

/**
 * Decides which pending runs go to which claims. Pure: the journal executes its decisions. The claim and the explanation
 * of a run share the rule `obstacles`.
 */
export interface SchedulingStrategy {
  /** The value of SERVICE_SCHEDULER that selects it. */
  readonly name: string;
  /** True for a strategy that assigns the head of the queue, whatever workers hold: one statement reads and locks it. */
  readonly isFifo?: boolean;
  candidatesFor(claimants: readonly Claimant[], now: Date): CandidateQuery;
  /** Why the worker cannot execute the run now; empty if it can. */
  obstacles(claimant: Claimant, run: Run): readonly Obstacle[];
  /**
   * How many runs of a shape the worker could get now, without reservations and other runs in the queue; Infinity: any
   * number. For a worker that holds nothing it is positive exactly when `obstacles` of a run without GPU tags is empty. Absent
   * in a strategy that considers more than the shape of a run.
   */
  roomOf?(claimant: Claimant): (shape: Shape) => number;
  /**
   * Assignments beyond a claimant's `max` or of runs that are not candidates are ignored.
   * @param claimants in the order in which their claims came
   * @param candidates pending runs by priority descending, then age, then id
   */
  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[], context: ChoiceContext): Choice;
}

/** Whether the worker could execute the run if it held nothing and were reserved for none. */
export function couldExecuteIdle(strategy: SchedulingStrategy, worker: ClaimingWorker, run: Run): boolean {
  return strategy.obstacles({ ...worker, held: [], keptFor: null }, run).length === 0;
}

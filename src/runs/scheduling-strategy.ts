import type { SqlExecutor } from '../database/sql.js';
import type { Run } from './machine/run.js';

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

/** A run in a worker's hands, by the service's own record, and what it takes of that worker. */
export interface HeldRun {
  readonly runId: string;
  readonly workerId: string;
  readonly cpu: number;
  readonly ramMb: number;
  readonly vramMb: number;
  readonly gpuId: number | null;
}

/** A worker together with the runs it holds. */
export interface Claimant extends ClaimingWorker {
  /** Empty for a strategy that takes the head of the queue. */
  readonly held: readonly HeldRun[];
  /** Runs that the claim is to get at most; left out: the claim does not say, and gets what the strategy gives it. */
  readonly max?: number | undefined;
  /** Id of the run that the worker is kept free for; null or left out: none, or `choose` finds it in the candidates. */
  readonly keptFor?: string | null;
}

/** A pending run that may be handed out. */
export interface QueuedRun extends Run {
  /** Since when runs behind this one have been handed out before it; null: never. */
  readonly passedOverAt: Date | null;
  /** The worker that is kept free for this run; null: none. */
  readonly reservedFor: string | null;
}

/** An amount of each resource. */
export interface Shape {
  readonly cpu: number;
  readonly ramMb: number;
  readonly vramMb: number;
}

/**
 * Which part of the queue a strategy wants to see. The parts are joined and come in the order of the queue. Runs that
 * are reserved for one of the claimants always come too.
 */
export interface CandidateQuery {
  /** Runs of each part at most, at least 1. */
  readonly limit: number;
  /** For each of these, the first runs that ask for no more; left out: the first runs whatever they ask for. */
  readonly capacity?: readonly Shape[];
  /** Also, for each of these, the first runs that ask for no more. */
  readonly free?: readonly Shape[];
  /** Also the first runs within the capacity that have been passed over since before this time. */
  readonly passedOverBefore?: Date;
}

/** Why a worker cannot be given a run now. */
export interface Obstacle {
  /** What is short: `cpu`, `ram_mb`, `vram_mb`, or a name of the strategy's own. */
  readonly resource: string;
  /** What the run asks for. */
  readonly needed: number;
  /** What the worker has left. */
  readonly free: number;
  /** What the worker has altogether. */
  readonly total: number;
}

/** One run for one claim. */
export interface Assignment {
  /** Index of the claim in the list that the strategy was given. */
  readonly claim: number;
  readonly runId: string;
  /** The GPU that the run is to use, or null. */
  readonly gpuId: number | null;
}

/** The worker that is kept free for a run; null: none any more. */
export interface Reservation {
  readonly runId: string;
  readonly workerId: string | null;
}

/** What a strategy decides. */
export interface Choice {
  /** A run may be named once; a claim may get several runs or none. */
  readonly assignments: readonly Assignment[];
  /** Workers that are to be kept free for runs from now on; null ends a reservation. */
  readonly reservations?: readonly Reservation[];
  /** Runs that were passed over: noted once, with the present time. */
  readonly passedOver?: readonly string[];
}

/** What a choice is made from besides workers and runs. */
export interface ChoiceContext {
  /** The database's time. */
  readonly now: Date;
  /** Ids of workers that are active and not draining, of those that a reservation of a candidate names. */
  readonly reachable: ReadonlySet<string>;
}

/**
 * Decides which pending runs go to which claims. Pure: it sees candidates and names assignments; the journal carries
 * them out. `obstacles` is the rule that both the claim and the explanation of a run go by.
 */
export interface SchedulingStrategy {
  /** The name that SERVICE_SCHEDULER selects it by. */
  readonly name: string;
  /** True for a strategy that hands out exactly the head of the queue, whatever workers hold: it is read and locked at once. */
  readonly isFifo?: boolean;
  /** Which runs it wants to see for these claims. */
  candidatesFor(claimants: readonly Claimant[], now: Date): CandidateQuery;
  /** What keeps the worker from being given the run now; empty when nothing does. */
  obstacles(claimant: Claimant, run: Run): readonly Obstacle[];
  /**
   * How many runs of a shape the worker could be given now, were it kept free for nobody and nothing else in the queue;
   * Infinity: any number. For a worker that holds nothing it is more than 0 exactly when `obstacles` names none. Left out
   * by a strategy that looks at more of a run than its shape: of such runs nobody can say beforehand who takes them.
   */
  roomOf?(claimant: Claimant): (shape: Shape) => number;
  /**
   * What it names beyond a claimant's `max`, or beyond the candidates, is left in the queue.
   * @param claimants in the order in which their claims came
   * @param candidates pending runs by priority descending, then age, then id
   */
  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[], context: ChoiceContext): Choice;
}

/** Who claims: the workers of a deployment, and the strategy that serves them. */
export interface ClaimContext {
  readonly strategy: SchedulingStrategy;
  /**
   * Those of the workers that may be given runs at this moment: active and not draining.
   * @param executor what to ask the database by, if it has to be asked
   */
  findClaiming(ids: readonly string[], executor: SqlExecutor): Promise<ReadonlyMap<string, ClaimingWorker>>;
}

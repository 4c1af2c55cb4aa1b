import { isRestricted, type Run } from '../machine/run.js';
import { requirementList } from '../requirements.js';
import { ConcurrencyLimits } from './concurrency-limits.js';
import type {
  Assignment,
  Choice,
  ChoiceContext,
  Claimant,
  ClaimingWorker,
  QueuedRun,
  Reservation,
  SchedulingStrategy,
} from '../scheduling-strategy.js';

/** Whether the idle worker has the resources that the run asks for. */
export function hasResources({ cpuCores, ramMb, gpus }: ClaimingWorker, run: Run): boolean {
  if (run.cpu > cpuCores || run.ramMb > ramMb) return false;
  return run.vramMb === 0 || gpus.some(({ vramMb }) => vramMb >= run.vramMb);
}

/**
 * Whether a worker may get a run, before the strategy is asked. After a fault of the infrastructure a run is given to
 * workers with its resources only, and to the avoided one only if no other could execute it.
 * @param workers those that may claim: active and not draining
 */
export function isEligible(
  strategy: SchedulingStrategy,
  worker: ClaimingWorker,
  run: Run,
  workers: Iterable<ClaimingWorker>,
): boolean {
  if (run.avoidedWorker === null) return true;
  if (!hasResources(worker, run)) return false;
  if (run.avoidedWorker !== worker.id) return true;
  for (const other of workers) {
    if (other.id === worker.id || !hasResources(other, run)) continue;
    if (strategy.obstacles({ ...other, held: [] }, run).length === 0) return false;
  }
  return true;
}

/** What claims see of the queues beyond the plain runs. */
export interface ClaimEligibility {
  /** Those that may claim: active and not draining; empty unless a run avoids a claimant. */
  readonly workers: readonly ClaimingWorker[];
  /** What the worker of a run must have, as `requirementList`, by the id of the run; absent: nothing. */
  readonly required: ReadonlyMap<string, readonly string[]>;
  readonly limits: ConcurrencyLimits;
}

/**
 * The strategy's choice among the runs that each claimant may get. Runs with requirements or a key, and runs that avoid a
 * worker, make it choose per claimant; it chooses again without the runs that a full key leaves out.
 */
export function chooseEligible(
  strategy: SchedulingStrategy,
  claimants: readonly Claimant[],
  candidates: readonly QueuedRun[],
  { workers, required, limits }: ClaimEligibility,
  context: ChoiceContext,
): Choice {
  if (candidates.every((run) => run.avoidedWorker === null && !isRestricted(run))) {
    return strategy.choose(claimants, candidates, context);
  }
  const assignments: Assignment[] = [];
  const reservations = new Map<string, Reservation>();
  const passedOver = new Set<string>();
  const taken = new Set<string>();
  const left = limits.copy();
  const meets = requirementCheck(required);
  for (const [claim, claimant] of claimants.entries()) {
    const open = candidates.filter(
      (run) =>
        !taken.has(run.id) &&
        left.isBelowLimit(run) &&
        meets(claimant, run) &&
        (run.avoidedWorker === null ||
          isEligible(
            strategy,
            claimant,
            run,
            workers.filter((worker) => meets(worker, run)),
          )),
    );
    const choice = chooseWithin(strategy, claimant, open, left, context);
    for (const { runId, gpuId } of choice.assignments) {
      assignments.push({ claim, runId, gpuId });
      taken.add(runId);
    }
    for (const reservation of choice.reservations ?? []) reservations.set(reservation.runId, reservation);
    for (const runId of choice.passedOver ?? []) passedOver.add(runId);
  }
  return {
    assignments,
    reservations: [...reservations.values()].filter(({ runId }) => !taken.has(runId)),
    passedOver: [...passedOver].filter((runId) => !taken.has(runId)),
  };
}

/** The choice for one claimant, which takes no more runs of a key than its limit allows. They are taken from `left`. */
function chooseWithin(
  strategy: SchedulingStrategy,
  claimant: Claimant,
  candidates: readonly QueuedRun[],
  left: ConcurrencyLimits,
  context: ChoiceContext,
): Choice {
  const byId = new Map(candidates.map((run) => [run.id, run]));
  for (let open = candidates; ;) {
    const choice = strategy.choose([claimant], open, context);
    const limits = left.copy();
    const full = new Set<string>();
    const chosen = new Map<string, Assignment>();
    for (const assignment of choice.assignments) {
      const run = byId.get(assignment.runId);
      if (!run || assignment.claim !== 0) continue;
      if (limits.tryAcquire(run)) chosen.set(run.id, assignment);
      else if (run.concurrencyKey !== null) full.add(run.concurrencyKey);
    }
    if (full.size === 0) {
      for (const id of chosen.keys()) {
        const run = byId.get(id);
        if (run) left.tryAcquire(run);
      }
      return { ...choice, assignments: [...chosen.values()] };
    }
    // Each round leaves out runs of one more key at least.
    open = open.filter(({ id, concurrencyKey: key }) => key === null || !full.has(key) || chosen.has(id));
  }
}

/** Whether a worker has what the worker of a run must have. */
function requirementCheck(
  required: ReadonlyMap<string, readonly string[]>,
): (worker: ClaimingWorker, run: Run) => boolean {
  const lists = new Map<ClaimingWorker, ReadonlySet<string>>();
  return (worker, run) => {
    const names = required.get(run.id);
    if (names === undefined || names.length === 0) return true;
    const has = lists.get(worker) ?? new Set(requirementList(worker));
    lists.set(worker, has);
    return names.every((name) => has.has(name));
  };
}

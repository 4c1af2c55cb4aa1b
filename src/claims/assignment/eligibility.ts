import type { Run } from '../../runs/machine/run.js';
import { isPlain, offerOf, serves, type Lane, type Offer } from '../../runs/queue/lane.js';
import { ConcurrencyLimits } from './concurrency-limits.js';
import type {
  Assignment,
  Choice,
  ChoiceContext,
  Claimant,
  QueuedRun,
  Reservation,
  SchedulingStrategy,
} from '../../runs/scheduling-strategy.js';

/** What decides, besides the strategy, which runs a claimant may get. */
export interface ClaimEligibility {
  /** By the id of the run; absent: the plain lane. */
  readonly lanes: ReadonlyMap<string, Lane>;
  readonly limits: ConcurrencyLimits;
}

/**
 * The strategy's choice among the runs that each claimant may get. Runs outside the plain lane make it choose per claimant;
 * it chooses again without the runs that a full key leaves out.
 */
export function chooseEligible(
  strategy: SchedulingStrategy,
  claimants: readonly Claimant[],
  candidates: readonly QueuedRun[],
  { lanes, limits }: ClaimEligibility,
  context: ChoiceContext,
): Choice {
  if (candidates.every(isPlain)) {
    return strategy.choose(claimants, candidates, context);
  }
  const assignments: Assignment[] = [];
  const reservations = new Map<string, Reservation>();
  const passedOver = new Set<string>();
  const taken = new Set<string>();
  const left = limits.copy();
  const mayServe = laneCheck(lanes);
  for (const [claim, claimant] of claimants.entries()) {
    const open = candidates.filter(
      (run) => !taken.has(run.id) && left.isBelowLimit(run) && mayServe(claimant, run),
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

/** Whether a worker may serve the lane of a run. */
function laneCheck(lanes: ReadonlyMap<string, Lane>): (worker: Claimant, run: Run) => boolean {
  const offers = new Map<Claimant, Offer>();
  return (worker, run) => {
    const lane = lanes.get(run.id);
    if (lane === undefined) return true;
    const offer = offers.get(worker) ?? offerOf(worker);
    offers.set(worker, offer);
    return serves(offer, lane);
  };
}

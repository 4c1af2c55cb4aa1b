import type { Run } from '../machine/run.js';
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

/** The strategy's choice among the runs that each claimant may get. Runs that avoid a worker make it choose per claimant. */
export function chooseEligible(
  strategy: SchedulingStrategy,
  claimants: readonly Claimant[],
  candidates: readonly QueuedRun[],
  workers: Iterable<ClaimingWorker>,
  context: ChoiceContext,
): Choice {
  if (candidates.every(({ avoidedWorker }) => avoidedWorker === null)) {
    return strategy.choose(claimants, candidates, context);
  }
  const assignments: Assignment[] = [];
  const reservations = new Map<string, Reservation>();
  const passedOver = new Set<string>();
  const taken = new Set<string>();
  for (const [claim, claimant] of claimants.entries()) {
    const open = candidates.filter(
      (run) => !taken.has(run.id) && isEligible(strategy, claimant, run, workers),
    );
    const choice = strategy.choose([claimant], open, context);
    for (const { claim: index, runId, gpuId } of choice.assignments) {
      if (index !== 0) continue;
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

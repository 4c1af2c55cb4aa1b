import type { Run } from '../../runs/machine/run.js';
import {
  needsOf,
  type Assignment,
  type CandidateQuery,
  type Choice,
  type Claimant,
  type Obstacle,
  type QueuedRun,
  type SchedulingStrategy,
  type Shape,
} from '../../runs/scheduling-strategy.js';
import { freeResources } from '../../workers/free-resources.js';
import { fitsInto, shortages } from './fit-rule.js';

/** Assigns the head of the queue to the first claim: one run, or as many as it asks for, whatever the worker has. */
export class DirectStrategy implements SchedulingStrategy {
  readonly name = 'direct';
  readonly isFifo = true;

  candidatesFor(claimants: readonly Claimant[]): CandidateQuery {
    const wanted = claimants.reduce((sum, { max = 1 }) => sum + max, 0);
    return { limit: Math.max(1, wanted) };
  }

  /** What the worker lacks even when idle. It may get the run all the same, and reports that it cannot execute it. */
  obstacles(worker: Claimant, run: Run): readonly Obstacle[] {
    return shortages(worker, freeResources(worker, []), needsOf(run));
  }

  /** An idle worker takes one run. */
  roomOf(worker: Claimant): (shape: Shape) => number {
    const capacity = freeResources(worker, []);
    return (shape) => (worker.held.length === 0 && fitsInto(capacity, shape) ? 1 : 0);
  }

  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[]): Choice {
    const assignments: Assignment[] = [];
    for (const [claim, { max = 1 }] of claimants.entries()) {
      const from = assignments.length;
      for (const { id } of candidates.slice(from, from + max)) {
        assignments.push({ claim, runId: id, gpuId: null });
      }
    }
    return { assignments };
  }
}

import type {
  Assignment,
  CandidateQuery,
  Choice,
  Claimant,
  Obstacle,
  QueuedRun,
  SchedulingStrategy,
} from '../../runs/scheduling-strategy.js';

/** Assigns the head of the queue to the first claim: one run, or as many as it asks for, whatever the worker has. */
export class DirectStrategy implements SchedulingStrategy {
  readonly name = 'direct';
  readonly isFifo = true;

  candidatesFor(claimants: readonly Claimant[]): CandidateQuery {
    const wanted = claimants.reduce((sum, { max = 1 }) => sum + max, 0);
    return { limit: Math.max(1, wanted) };
  }

  obstacles(): readonly Obstacle[] {
    return [];
  }

  /** An idle worker takes one run. */
  roomOf({ held }: Claimant): () => number {
    return () => (held.length === 0 ? 1 : 0);
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

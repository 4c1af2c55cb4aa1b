import type {
  Assignment,
  CandidateQuery,
  Choice,
  Claimant,
  Obstacle,
  QueuedRun,
  SchedulingStrategy,
} from '../../runs/scheduling-strategy.js';

/** The head of the queue goes to whoever asks first: one run a claim, or as many as it asks for, whatever the worker has. */
export class DirectStrategy implements SchedulingStrategy {
  readonly name = 'direct';
  readonly isFifo = true;

  candidatesFor(claimants: readonly Claimant[]): CandidateQuery {
    return {
      limit: Math.max(
        1,
        claimants.reduce((sum, { max = 1 }) => sum + max, 0),
      ),
    };
  }

  /** Nothing ever: every worker that may claim can be given any run. */
  obstacles(): readonly Obstacle[] {
    return [];
  }

  /** Whatever the run asks for, workers that have nothing to do take one. */
  roomOf({ held }: Claimant): () => number {
    const room = held.length === 0 ? 1 : 0;
    return () => room;
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

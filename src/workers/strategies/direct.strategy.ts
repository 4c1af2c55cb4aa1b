import type {
  CandidateQuery,
  Choice,
  Claimant,
  Obstacle,
  QueuedRun,
  SchedulingStrategy,
} from '../../runs/scheduling-strategy.js';

/** The head of the queue goes to whoever asks: one run a claim, whatever the worker has. */
export class DirectStrategy implements SchedulingStrategy {
  readonly name = 'direct';
  readonly takesHead = true;

  candidatesFor(claimants: readonly Claimant[]): CandidateQuery {
    return { limit: Math.max(1, claimants.length) };
  }

  /** Nothing ever: every worker that may claim can be given any run. */
  obstacles(): readonly Obstacle[] {
    return [];
  }

  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[]): Choice {
    return {
      assignments: candidates
        .slice(0, claimants.length)
        .map((run, claim) => ({ claim, runId: run.id, gpuId: null })),
    };
  }
}

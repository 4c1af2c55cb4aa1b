import type { Run } from '../../runs/run-machine/run.js';
import type { Assignment, ClaimingWorker, SchedulingStrategy } from '../../runs/scheduling-strategy.js';

/** The head of the queue goes to whoever asks: one run a claim, whatever the worker has. */
export class DirectStrategy implements SchedulingStrategy {
  readonly name = 'direct';

  candidatesFor(claims: number): number {
    return claims;
  }

  choose(claims: readonly ClaimingWorker[], candidates: readonly Run[]): readonly Assignment[] {
    return candidates.slice(0, claims.length).map((run, claim) => ({ claim, runId: run.id, gpuId: null }));
  }
}

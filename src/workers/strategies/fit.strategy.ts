import type { Run } from '../../runs/run-machine/run.js';
import type {
  CandidateQuery,
  Choice,
  ChoiceContext,
  Claimant,
  Obstacle,
  QueuedRun,
  SchedulingStrategy,
} from '../../runs/scheduling-strategy.js';
import { freeResources } from '../free-resources.js';
import { distinctShapes } from './candidate-shapes.js';
import { FitRound } from './fit-round.js';
import { roomIn, shortages } from './fit-rule.js';

/** Runs that one worker can get by one claim, and that can wait in front of those which fit it. */
const CANDIDATES = 100;
/** Runs that a choice looks at for several workers together, about. */
const CANDIDATES_OF_ALL = 400;
const LEAST_CANDIDATES = 20;
/** Different sizes of workers that a choice looks at one by one. */
const SHAPES = 16;

/** A worker that is kept free for another run has no room for this one, whatever it has. */
const KEPT_FREE: Obstacle = { resource: 'reserved', needed: 1, free: 0, total: 1 };

/**
 * A worker gets the first runs of the queue that fit into what it has left, as many as fit. Runs may share a GPU while
 * their memory adds up to at most its own.
 *
 * A run that others have been given before it for too long is not passed over for ever: a worker that could hold it
 * is kept free for it, so that it fits once the runs of that worker have ended.
 */
export class FitStrategy implements SchedulingStrategy {
  readonly name = 'fit';
  readonly #reserveAfterMs: number;

  /** @param reserveAfterSeconds how long a run may be passed over before a worker is kept free for it */
  constructor(reserveAfterSeconds: number) {
    this.#reserveAfterMs = reserveAfterSeconds * 1000;
  }

  candidatesFor(claimants: readonly Claimant[], now: Date): CandidateQuery {
    const capacity = distinctShapes(
      claimants.map((worker) => roomIn(freeResources(worker, []))),
      SHAPES,
    );
    const free = distinctShapes(
      claimants.map((worker) => roomIn(freeResources(worker, worker.held))),
      SHAPES,
    );
    const shared = Math.ceil(CANDIDATES_OF_ALL / Math.max(1, capacity.length, free.length));
    return {
      limit: Math.min(CANDIDATES, Math.max(LEAST_CANDIDATES, shared)),
      capacity,
      free,
      passedOverBefore: new Date(now.getTime() - this.#reserveAfterMs),
    };
  }

  obstacles(claimant: Claimant, run: Run): readonly Obstacle[] {
    const { keptFor = null } = claimant;
    const short = shortages(claimant, freeResources(claimant, claimant.held), run);
    return keptFor === null || keptFor === run.id ? short : [KEPT_FREE, ...short];
  }

  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[], context: ChoiceContext): Choice {
    return new FitRound(claimants, candidates, context, this.#reserveAfterMs).play();
  }
}

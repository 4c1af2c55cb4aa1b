import { isDeepStrictEqual as isSame } from 'node:util';
import type { Run } from '../../runs/machine/run.js';
import type {
  CandidateQuery,
  Choice,
  ChoiceContext,
  Claimant,
  Obstacle,
  QueuedRun,
  SchedulingStrategy,
  Shape,
} from '../../runs/scheduling-strategy.js';
import { freeResources } from '../free-resources.js';
import { distinctShapes } from './candidate-shapes.js';
import { FitRound } from './fit-round.js';
import { roomIn, shortages, timesIn } from './fit-rule.js';

/** Runs of each size that a choice looks at, at least: as many can be given to one worker by one claim. */
const CANDIDATES = 100;
/** And for each claim, so that equal workers which claim together all get one. */
const CANDIDATES_OF_A_CLAIM = 2;
/** Sizes that a choice looks at one by one. Each may cost a walk through the whole queue, when little of it fits. */
const SHAPES = 4;

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
    ).filter((shape) => !capacity.some((whole) => isSame(shape, whole)));
    return {
      limit: Math.max(CANDIDATES, CANDIDATES_OF_A_CLAIM * claimants.length),
      capacity,
      free,
      passedOverBefore: new Date(now.getTime() - this.#reserveAfterMs),
    };
  }

  obstacles(claimant: Claimant, run: Run): readonly Obstacle[] {
    const { keptFor = null } = claimant;
    const short = shortages(claimant, roomIn(freeResources(claimant, claimant.held)), run);
    return keptFor === null || keptFor === run.id ? short : [KEPT_FREE, ...short];
  }

  roomOf(claimant: Claimant): (shape: Shape) => number {
    const free = freeResources(claimant, claimant.held);
    return (shape) => timesIn(free, shape);
  }

  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[], context: ChoiceContext): Choice {
    return new FitRound(claimants, candidates, context, this.#reserveAfterMs).play();
  }
}

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
import { freeResources } from '../../workers/free-resources.js';
import { FitChoice } from './fit-choice.js';
import { countFitting, largestShape, shortages } from './fit-rule.js';

/** Least number of candidates of each shape: as many can be assigned to one worker by one claim. */
const CANDIDATES = 100;
/** Candidates for each claim, so that equal workers which claim together all get one. */
const CANDIDATES_PER_CLAIM = 2;
/** Shapes of one query. Each may read the whole queue when few runs fit. */
const MAX_SHAPES = 4;
/** Constraints of runs are integers up to this. */
const MAX_INTEGER = 2 ** 31 - 1;

const RESERVED: Obstacle = { resource: 'reserved', needed: 1, free: 0, total: 1 };

/**
 * Assigns the first runs of the queue that fit the free resources of a worker; runs share a GPU while their memory fits.
 * For a run that was passed over for too long, it reserves a worker, which gets no other run until this one fits.
 */
export class FitStrategy implements SchedulingStrategy {
  readonly name = 'fit';
  readonly #reserveAfterMs: number;

  constructor(reserveAfterSeconds: number) {
    this.#reserveAfterMs = reserveAfterSeconds * 1000;
  }

  candidatesFor(claimants: readonly Claimant[], now: Date): CandidateQuery {
    const capacity = distinctShapes(claimants.map((worker) => largestShape(freeResources(worker, []))));
    const free = distinctShapes(
      claimants.map((worker) => largestShape(freeResources(worker, worker.held))),
    ).filter((shape) => !capacity.some((whole) => isSame(shape, whole)));
    return {
      limit: Math.max(CANDIDATES, CANDIDATES_PER_CLAIM * claimants.length),
      capacity,
      free,
      passedOverBefore: new Date(now.getTime() - this.#reserveAfterMs),
    };
  }

  obstacles(claimant: Claimant, run: Run): readonly Obstacle[] {
    const { keptFor = null } = claimant;
    const short = shortages(claimant, largestShape(freeResources(claimant, claimant.held)), run);
    return keptFor === null || keptFor === run.id ? short : [RESERVED, ...short];
  }

  roomOf(claimant: Claimant): (shape: Shape) => number {
    const free = freeResources(claimant, claimant.held);
    return (shape) => countFitting(free, shape);
  }

  choose(claimants: readonly Claimant[], candidates: readonly QueuedRun[], context: ChoiceContext): Choice {
    return new FitChoice(claimants, candidates, context, this.#reserveAfterMs).choose();
  }
}

/** At most MAX_SHAPES distinct shapes: the last one covers all that are left. */
function distinctShapes(shapes: readonly Shape[]): Shape[] {
  const bounded = shapes.map(({ cpu, ramMb, vramMb }) => ({
    cpu: Math.min(cpu, MAX_INTEGER),
    ramMb: Math.min(ramMb, MAX_INTEGER),
    vramMb: Math.min(vramMb, MAX_INTEGER),
  }));
  const distinct = [...new Map(bounded.map((shape) => [Object.values(shape).join(), shape])).values()];
  if (distinct.length <= MAX_SHAPES) return distinct;
  const largest = distinct.slice(MAX_SHAPES - 1).reduce((a, b) => ({
    cpu: Math.max(a.cpu, b.cpu),
    ramMb: Math.max(a.ramMb, b.ramMb),
    vramMb: Math.max(a.vramMb, b.vramMb),
  }));
  return [...distinct.slice(0, MAX_SHAPES - 1), largest];
}

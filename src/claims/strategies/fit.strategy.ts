import { isDeepStrictEqual as isSame } from 'node:util';
import { type Run, gpusOf } from '../../runs/machine/run.js';
import {
  needsOf,
  shapeOf,
  type Assignment,
  type CandidateQuery,
  type Choice,
  type ChoiceContext,
  type Claimant,
  type HeldRun,
  type Obstacle,
  type QueuedRun,
  type Reservation,
  type SchedulingStrategy,
  type Shape,
} from '../../runs/scheduling-strategy.js';
import { freeResources, type FreeResources } from '../../workers/free-resources.js';
import { chooseGpus, countFitting, fitsInto, largestShapes, shortages } from './fit-rule.js';

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
 * Assigns the first runs of the queue that fit the free resources of a worker; runs share a GPU while their memory fits, unless
 * one of them asks for whole GPUs.
 * For a run that was passed over for too long, it reserves a worker, which gets no other run until this one fits.
 */
export class FitStrategy implements SchedulingStrategy {
  readonly name = 'fit';
  readonly #reserveAfterMs: number;

  constructor(reserveAfterSeconds: number) {
    this.#reserveAfterMs = reserveAfterSeconds * 1000;
  }

  candidatesFor(claimants: readonly Claimant[], now: Date): CandidateQuery {
    const capacity = distinctShapes(claimants.flatMap((worker) => shapesOf(worker, [])));
    const free = distinctShapes(claimants.flatMap((worker) => shapesOf(worker, worker.held))).filter(
      (shape) => !capacity.some((whole) => isSame(shape, whole)),
    );
    return {
      limit: Math.max(CANDIDATES, CANDIDATES_PER_CLAIM * claimants.length),
      capacity,
      free,
      passedOverBefore: new Date(now.getTime() - this.#reserveAfterMs),
    };
  }

  obstacles(claimant: Claimant, run: Run): readonly Obstacle[] {
    const { keptFor = null } = claimant;
    const short = shortages(claimant, freeResources(claimant, claimant.held), needsOf(run));
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

/** The most that one run can get of the worker. */
function shapesOf(worker: Claimant, held: readonly HeldRun[]): Shape[] {
  return largestShapes(freeResources(worker, held), worker.capabilities.includes('gpus'));
}

/** At most MAX_SHAPES distinct shapes: the last one covers all that are left. */
function distinctShapes(shapes: readonly Shape[]): Shape[] {
  const bounded = shapes.map(({ cpuMillis, ramMb, vramMb, gpus }) => ({
    cpuMillis: Math.min(cpuMillis, MAX_INTEGER * 1000),
    ramMb: Math.min(ramMb, MAX_INTEGER),
    vramMb: Math.min(vramMb, MAX_INTEGER),
    gpus,
  }));
  const distinct = [...new Map(bounded.map((shape) => [Object.values(shape).join(), shape])).values()];
  if (distinct.length <= MAX_SHAPES) return distinct;
  const largest = distinct.slice(MAX_SHAPES - 1).reduce((a, b) => ({
    cpuMillis: Math.max(a.cpuMillis, b.cpuMillis),
    ramMb: Math.max(a.ramMb, b.ramMb),
    vramMb: Math.max(a.vramMb, b.vramMb),
    gpus: Math.max(a.gpus, b.gpus),
  }));
  return [...distinct.slice(0, MAX_SHAPES - 1), largest];
}

interface Place {
  readonly claimant: Claimant;
  readonly claim: number;
  /** The resources of the idle worker. */
  readonly capacity: FreeResources;
  free: FreeResources;
  held: readonly HeldRun[];
  /** The run for which the worker is reserved; it gets no other. */
  reservedFor: QueuedRun | null;
  assigned: number;
  /** Position in the queue of the last assigned run; -1: none. */
  last: number;
}

/** One choice: assignments, reservations and passed-over runs. */
class FitChoice {
  readonly #places: readonly Place[];
  readonly #taken = new Set<string>();
  readonly #reserved = new Map<string, Place>();
  readonly #assignments: Assignment[] = [];

  /** @param runs in queue order */
  constructor(
    claimants: readonly Claimant[],
    private readonly runs: readonly QueuedRun[],
    private readonly context: ChoiceContext,
    private readonly reserveAfterMs: number,
  ) {
    this.#places = claimants.map((claimant, claim) => {
      return {
        claimant,
        claim,
        capacity: freeResources(claimant, []),
        free: freeResources(claimant, claimant.held),
        held: claimant.held,
        reservedFor: null,
        assigned: 0,
        last: -1,
      };
    });
    this.#applyReservations();
  }

  choose(): Choice {
    this.runs.forEach((run, at) => {
      const reserved = this.#reservedPlace(run);
      if (reserved && !isFull(reserved) && fits(reserved, run)) this.#assign(reserved, run, at);
    });
    // A run that gets another worker frees the reserved one, which earlier runs may fit.
    while (this.#assignInOrder());
    return {
      assignments: this.#assignments,
      reservations: this.#reservations(),
      passedOver: this.#passedOver(),
    };
  }

  /** A worker is reserved for the first run in the queue that names it and that it could execute. */
  #applyReservations(): void {
    const byId = new Map(this.#places.map((place) => [place.claimant.id, place]));
    for (const run of this.runs) {
      const place = run.reservedFor === null ? undefined : byId.get(run.reservedFor);
      if (place && place.reservedFor === null && couldEverHold(place, run)) place.reservedFor = run;
    }
  }

  /** Goes through the queue until a reservation becomes void. @returns whether one did */
  #assignInOrder(): boolean {
    for (const [at, run] of this.runs.entries()) {
      if (this.#taken.has(run.id)) continue;
      const reserved = this.#reservedPlace(run);
      const place = this.#placeFor(run);
      if (place) this.#assign(place, run, at);
      if (place && reserved && reserved !== place) {
        reserved.reservedFor = null;
        return true;
      }
      if (place || reserved || !this.#isOverdue(run)) continue;
      if (!this.#isReservedElsewhere(run) && !this.#isNext(run)) this.#reserve(run);
    }
    return false;
  }

  /** Of the places that the run fits, the one with the fewest runs of this choice. */
  #placeFor(run: QueuedRun): Place | null {
    let best: Place | null = null;
    for (const place of this.#places) {
      if (isFull(place) || !mayGet(place, run)) continue;
      if ((best === null || place.assigned < best.assigned) && fits(place, run)) best = place;
    }
    return best;
  }

  /** Whether the run fits a full claimant: its next claim gets the run, without a reservation. */
  #isNext(run: QueuedRun): boolean {
    return this.#places.some((place) => isFull(place) && mayGet(place, run) && fits(place, run));
  }

  #assign(place: Place, run: QueuedRun, at: number): void {
    const { claimant, claim } = place;
    const { id: runId } = run;
    const gpuIds = chooseGpus(place.free, needsOf(run)) ?? [];
    const [gpuId = null] = gpuIds;
    this.#assignments.push({ claim, runId, gpuId, ...(gpusOf(run) > 0 && { gpuIds }) });
    this.#taken.add(runId);
    if (place.reservedFor === run) place.reservedFor = null;
    place.held = [...place.held, { runId, workerId: claimant.id, ...shapeOf(run), gpuIds }];
    place.free = freeResources(claimant, place.held);
    place.assigned += 1;
    place.last = Math.max(place.last, at);
  }

  #isOverdue({ passedOverAt }: QueuedRun): boolean {
    return (
      passedOverAt !== null && this.context.now.getTime() - passedOverAt.getTime() >= this.reserveAfterMs
    );
  }

  #reservedPlace(run: QueuedRun): Place | undefined {
    return this.#places.find(({ reservedFor }) => reservedFor === run);
  }

  /** Whether a reachable worker that is not among the claimants is reserved for the run. */
  #isReservedElsewhere({ reservedFor }: QueuedRun): boolean {
    if (reservedFor === null || !this.context.reachable.has(reservedFor)) return false;
    return !this.#places.some(({ claimant }) => claimant.id === reservedFor);
  }

  #reserve(run: QueuedRun): void {
    const place = this.#places.find((one) => one.reservedFor === null && couldEverHold(one, run));
    if (!place) return;
    place.reservedFor = run;
    this.#reserved.set(run.id, place);
  }

  /** New reservations, and those that are void. */
  #reservations(): Reservation[] {
    return this.runs.flatMap((run): Reservation[] => {
      if (this.#taken.has(run.id)) return [];
      const place = this.#reserved.get(run.id);
      if (place) return [{ runId: run.id, workerId: place.claimant.id }];
      const isVoid = run.reservedFor !== null && !this.#reservedPlace(run) && !this.#isReservedElsewhere(run);
      return isVoid ? [{ runId: run.id, workerId: null }] : [];
    });
  }

  /** Runs, not yet marked, behind which a run was assigned to a claimant that could execute them. */
  #passedOver(): string[] {
    const served = this.#places.filter(({ assigned }) => assigned > 0);
    return this.runs.flatMap((run, at) => {
      if (run.passedOverAt !== null || this.#taken.has(run.id)) return [];
      return served.some((place) => place.last > at && couldEverHold(place, run)) ? [run.id] : [];
    });
  }
}

/** Whether the claimant has got as many runs as it asked for. */
function isFull({ claimant: { max = Infinity }, assigned }: Place): boolean {
  return assigned >= max;
}

function mayGet({ reservedFor }: Place, run: QueuedRun): boolean {
  return reservedFor === null || reservedFor === run;
}

function fits({ free }: Place, run: QueuedRun): boolean {
  return fitsInto(free, needsOf(run));
}

function couldEverHold({ capacity }: Place, run: QueuedRun): boolean {
  return fitsInto(capacity, needsOf(run));
}

import type {
  Assignment,
  Choice,
  ChoiceContext,
  Claimant,
  HeldRun,
  QueuedRun,
  Reservation,
  Shape,
} from '../../runs/scheduling-strategy.js';
import { freeResources, type FreeResources } from '../../workers/free-resources.js';
import { largestShape, shortages, tightestGpu } from './fit-rule.js';

interface Place {
  readonly claimant: Claimant;
  readonly claim: number;
  /** The most that one run can get of the idle worker. */
  readonly capacity: Shape;
  free: FreeResources;
  /** The most that one run can get of the free resources. */
  largest: Shape;
  held: readonly HeldRun[];
  /** The run for which the worker is reserved; it gets no other. */
  reservedFor: QueuedRun | null;
  assigned: number;
  /** Position in the queue of the last assigned run; -1: none. */
  last: number;
}

/** One choice of the strategy `fit`: assignments, reservations and passed-over runs. */
export class FitChoice {
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
      const free = freeResources(claimant, claimant.held);
      return {
        claimant,
        claim,
        capacity: largestShape(freeResources(claimant, [])),
        free,
        largest: largestShape(free),
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
    const gpuId = tightestGpu(place.free, run.vramMb);
    const { id: runId, cpu, ramMb, vramMb } = run;
    this.#assignments.push({ claim, runId, gpuId });
    this.#taken.add(runId);
    if (place.reservedFor === run) place.reservedFor = null;
    place.held = [...place.held, { runId, workerId: claimant.id, cpu, ramMb, vramMb, gpuId }];
    place.free = freeResources(claimant, place.held);
    place.largest = largestShape(place.free);
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

function fits({ claimant, largest }: Place, run: QueuedRun): boolean {
  return shortages(claimant, largest, run).length === 0;
}

function couldEverHold({ claimant, capacity }: Place, run: QueuedRun): boolean {
  return shortages(claimant, capacity, run).length === 0;
}

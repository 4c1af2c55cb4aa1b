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
import { freeResources, type FreeResources } from '../free-resources.js';
import { roomIn, shortages, tightestGpu } from './fit-rule.js';

/** A claimant while runs are being given out. */
interface Place {
  readonly claimant: Claimant;
  readonly claim: number;
  /** The most that one run can get of the whole worker. */
  readonly capacity: Shape;
  free: FreeResources;
  /** The most that one run can get of what is free. */
  room: Shape;
  held: readonly HeldRun[];
  /** The run that the worker is kept free for; it gets no other. */
  keptFor: QueuedRun | null;
  /** Runs given so far. */
  given: number;
  /** Position in the queue of the last run given; -1: none. */
  last: number;
}

/** One choice of the strategy `fit`: gives runs out, keeps workers free, notes who was passed over. */
export class FitRound {
  readonly #places: readonly Place[];
  readonly #taken = new Set<string>();
  readonly #reserved = new Map<string, Place>();
  readonly #assignments: Assignment[] = [];

  /** @param runs in the order of the queue */
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
        capacity: roomIn(freeResources(claimant, [])),
        free,
        room: roomIn(free),
        held: claimant.held,
        keptFor: null,
        given: 0,
        last: -1,
      };
    });
    this.#honourReservations();
  }

  /** Plays the round, once. */
  play(): Choice {
    this.runs.forEach((run, at) => {
      const keeper = this.#keeperOf(run);
      if (keeper && !hasEnough(keeper) && fits(keeper, run)) this.#give(keeper, run, at);
    });
    // A run that finds another place sets the worker free that was kept for it: who came before it may fit there.
    while (this.#giveInOrder());
    return {
      assignments: this.#assignments,
      reservations: this.#reservations(),
      passedOver: this.#passedOver(),
    };
  }

  /** A worker is kept for one run, the first in the queue that is reserved for it and that it could ever hold. */
  #honourReservations(): void {
    const byId = new Map(this.#places.map((place) => [place.claimant.id, place]));
    for (const run of this.runs) {
      const place = run.reservedFor === null ? undefined : byId.get(run.reservedFor);
      if (place && place.keptFor === null && couldEverHold(place, run)) place.keptFor = run;
    }
  }

  /** Goes through the queue, to its end or until a worker is set free on the way; answers whether one was. */
  #giveInOrder(): boolean {
    for (const [at, run] of this.runs.entries()) {
      if (this.#taken.has(run.id)) continue;
      const keeper = this.#keeperOf(run);
      const place = this.#placeFor(run);
      if (place) this.#give(place, run, at);
      if (place && keeper && keeper !== place) {
        keeper.keptFor = null;
        return true;
      }
      if (place || keeper || !this.#isOverdue(run)) continue;
      if (!this.#isKeptElsewhere(run) && !this.#isNext(run)) this.#reserve(run);
    }
    return false;
  }

  /** The claimant that is to get the run: of those where it fits, the one that was given the fewest in this round. */
  #placeFor(run: QueuedRun): Place | null {
    let best: Place | null = null;
    for (const place of this.#places) {
      if (hasEnough(place) || !mayGet(place, run)) continue;
      if ((best === null || place.given < best.given) && fits(place, run)) best = place;
    }
    return best;
  }

  /** True when the run fits a claimant that has got all it asks for: it is next, and nothing needs to be kept free. */
  #isNext(run: QueuedRun): boolean {
    return this.#places.some((place) => hasEnough(place) && mayGet(place, run) && fits(place, run));
  }

  #give(place: Place, run: QueuedRun, at: number): void {
    const { claimant, claim } = place;
    const gpuId = tightestGpu(place.free, run.vramMb);
    const { id: runId, cpu, ramMb, vramMb } = run;
    this.#assignments.push({ claim, runId, gpuId });
    this.#taken.add(runId);
    if (place.keptFor === run) place.keptFor = null;
    place.held = [...place.held, { runId, workerId: claimant.id, cpu, ramMb, vramMb, gpuId }];
    place.free = freeResources(claimant, place.held);
    place.room = roomIn(place.free);
    place.given += 1;
    place.last = Math.max(place.last, at);
  }

  #isOverdue({ passedOverAt }: QueuedRun): boolean {
    return (
      passedOverAt !== null && this.context.now.getTime() - passedOverAt.getTime() >= this.reserveAfterMs
    );
  }

  #keeperOf(run: QueuedRun): Place | undefined {
    return this.#places.find(({ keptFor }) => keptFor === run);
  }

  /** True when a worker that is not here is kept for the run and can be reached. */
  #isKeptElsewhere({ reservedFor }: QueuedRun): boolean {
    if (reservedFor === null || !this.context.reachable.has(reservedFor)) return false;
    return !this.#places.some(({ claimant }) => claimant.id === reservedFor);
  }

  #reserve(run: QueuedRun): void {
    const place = this.#places.find(({ keptFor, ...at }) => keptFor === null && couldEverHold(at, run));
    if (!place) return;
    place.keptFor = run;
    this.#reserved.set(run.id, place);
  }

  /** What has changed: new reservations, and those that are worth nothing any more. */
  #reservations(): Reservation[] {
    return this.runs.flatMap((run): Reservation[] => {
      if (this.#taken.has(run.id)) return [];
      const place = this.#reserved.get(run.id);
      if (place) return [{ runId: run.id, workerId: place.claimant.id }];
      const isVoid = run.reservedFor !== null && !this.#keeperOf(run) && !this.#isKeptElsewhere(run);
      return isVoid ? [{ runId: run.id, workerId: null }] : [];
    });
  }

  /** Runs that have not been noted yet although a claimant that could hold them was given one behind them. */
  #passedOver(): string[] {
    const served = this.#places.filter(({ given }) => given > 0);
    return this.runs.flatMap((run, at) => {
      if (run.passedOverAt !== null || this.#taken.has(run.id)) return [];
      return served.some((place) => place.last > at && couldEverHold(place, run)) ? [run.id] : [];
    });
  }
}

/** True when the claimant has got as many runs as it asks for. */
function hasEnough({ claimant: { max = Infinity }, given }: Place): boolean {
  return given >= max;
}

/** True unless the claimant is kept free for another run. */
function mayGet({ keptFor }: Place, run: QueuedRun): boolean {
  return keptFor === null || keptFor === run;
}

function fits({ claimant, room }: Place, run: QueuedRun): boolean {
  return shortages(claimant, room, run).length === 0;
}

/** True when the run would fit if the worker held nothing. */
function couldEverHold(
  { claimant, capacity }: Pick<Place, 'claimant' | 'capacity'>,
  run: QueuedRun,
): boolean {
  return shortages(claimant, capacity, run).length === 0;
}

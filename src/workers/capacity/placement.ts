import type { HeldRun, SchedulingStrategy, Shape } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../pool/worker-pool.js';

/** How workers fit runs of one shape. */
export interface Placing {
  /** Whether any worker without runs could take such a run; null: unknown. */
  readonly isPlaceable: boolean | null;
  /** How many such runs the workers could take now if nothing else were queued; null: unknown. */
  readonly free: number | null;
}

/** Says, by the rule of the strategy, whether and how often runs of a shape fit the workers. */
export class Placement {
  readonly #empty: readonly ((shape: Shape) => number)[];
  readonly #free: readonly ((shape: Shape) => number)[];

  /**
   * @param workers those that accept runs
   * @param held their runs, by worker
   * @param reserved ids of workers that are reserved for a run: they take no other
   */
  constructor(
    strategy: SchedulingStrategy,
    workers: readonly PooledWorker[],
    held: ReadonlyMap<string, readonly HeldRun[]>,
    reserved: ReadonlySet<string>,
  ) {
    const open = workers.filter(({ id }) => !reserved.has(id));
    this.#empty = workers.flatMap((worker) => strategy.roomOf?.({ ...worker, held: [] }) ?? []);
    this.#free = open.flatMap(
      (worker) => strategy.roomOf?.({ ...worker, held: held.get(worker.id) ?? [] }) ?? [],
    );
  }

  /** @param most runs above which the free places need not be counted */
  place(shape: Shape, most: number): Placing {
    if (this.#empty.length === 0) return { isPlaceable: null, free: null };
    if (!this.#empty.some((placesFor) => placesFor(shape) > 0)) return { isPlaceable: false, free: 0 };
    let free = 0;
    for (const placesFor of this.#free) {
      if (free >= most) break;
      free += placesFor(shape);
    }
    return { isPlaceable: true, free: Math.min(free, most) };
  }
}

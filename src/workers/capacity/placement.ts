import type { HeldRun, SchedulingStrategy, Shape } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../pool/worker-pool.js';

/** What the workers that take runs could do with runs of one shape. */
export interface Placing {
  /** Whether any of them could be given such a run if it held nothing; null: nobody can say. */
  readonly isPlaceable: boolean | null;
  /** How many such runs they could be given now, were nothing else in the queue. Null as above. */
  readonly room: number | null;
}

type Room = (shape: Shape) => number;

const UNKNOWN: Placing = { isPlaceable: null, room: null };

/** Says of shapes whether, and how often, runs of them find a place, by the rule of the strategy. */
export class Placement {
  readonly #empty: readonly Room[];
  readonly #free: readonly Room[];

  /**
   * @param workers those that take runs
   * @param held the runs in their hands, by worker
   * @param reserved ids of workers that are kept free for a run: they are given nothing else
   */
  constructor(
    strategy: SchedulingStrategy,
    workers: readonly PooledWorker[],
    held: ReadonlyMap<string, readonly HeldRun[]>,
    reserved: ReadonlySet<string>,
  ) {
    const rooms = workers.map((worker) => ({
      empty: strategy.roomOf?.({ ...worker, held: [] }),
      free: reserved.has(worker.id)
        ? undefined
        : strategy.roomOf?.({ ...worker, held: held.get(worker.id) ?? [] }),
    }));
    this.#empty = rooms.flatMap(({ empty }) => empty ?? []);
    this.#free = rooms.flatMap(({ free }) => free ?? []);
  }

  /** @param enough runs beyond which the room need not be counted */
  place(shape: Shape, enough: number): Placing {
    if (this.#empty.length === 0) return UNKNOWN;
    if (!this.#empty.some((room) => room(shape) > 0)) return { isPlaceable: false, room: 0 };
    let sum = 0;
    for (const room of this.#free) {
      if (sum >= enough) break;
      sum += room(shape);
    }
    return { isPlaceable: true, room: Math.min(sum, enough) };
  }
}

import { Inject, Injectable } from '@nestjs/common';
import { RunDemandReader } from '../../runs/counts/run-demand.reader.js';
import type { RunDemand, ShapeDemand } from '../../runs/counts/run-demand.repository.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { WorkerPool } from '../pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import { Placement, type Placing } from './placement.js';
import { summariseSupply, takesRuns, type Supply } from './supply.js';

/** Runs that ask for the same, and what the workers could do with them. */
export interface PlacedDemand extends ShapeDemand, Placing {}

/** What runs ask for and what workers have. */
export interface Capacity {
  /** Name of the scheduling strategy. */
  readonly strategy: string;
  readonly demand: RunDemand & { readonly shapes: readonly PlacedDemand[] };
  /** When the oldest pending run was created; null when none is. */
  readonly oldestPendingAt: Date | null;
  readonly supply: Supply;
}

/** Tells what runs ask for and what workers have: what has to be known to start and stop workers. */
@Injectable()
export class CapacityService {
  constructor(
    private readonly reader: RunDemandReader,
    private readonly pool: WorkerPool,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /** @param limit shapes at most that are told one by one */
  async read(limit: number): Promise<Capacity> {
    const workers = await this.pool.list();
    const { demand, oldestPendingAt, held, reserved } = await this.reader.read(
      workers.map(({ id }) => id),
      limit,
    );
    const placement = new Placement(this.strategy, workers.filter(takesRuns), held, reserved);
    const shapes = demand.shapes.map((shape) => ({ ...shape, ...placement.place(shape, shape.ready) }));
    return {
      strategy: this.strategy.name,
      demand: { ...demand, shapes },
      oldestPendingAt,
      supply: summariseSupply(workers, held, reserved),
    };
  }
}

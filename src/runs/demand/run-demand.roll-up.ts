import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { inBatches } from '../../database/in-batches.js';
import { whenAlone } from '../../database/advisory-locks.js';
import { RunDemandRepository } from './run-demand.repository.js';

/** Rows that one transaction takes at most. */
export const ROWS_PER_BATCH = 2000;

/** Milliseconds after which a second is summed up: by then nobody writes to it. */
export const KEPT_APART_MS = 10_000;

const ROLL_UP_LOCK = '6031175942280515';

/** Sums up the counts of pending runs by their shape, so that reading them stays quick. */
@Injectable()
export class RunDemandRollUp {
  constructor(
    private readonly dataSource: DataSource,
    private readonly demand: RunDemandRepository,
  ) {}

  /**
   * One pass, in batches that are each a short transaction. Several processes may run it: one at a time works, the
   * others leave it to that one.
   * @param now the database's time
   * @param stop ends the pass between two batches
   * @returns how many rows were summed up
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const before = new Date(now.getTime() - KEPT_APART_MS);
    const summed = await inBatches(ROWS_PER_BATCH, stop, () =>
      this.#alone((manager) => this.demand.rollUp(manager, before, ROWS_PER_BATCH)),
    );
    if (summed > 0) await this.#alone((manager) => this.demand.removeEmpty(manager));
    return summed;
  }

  async #alone(work: (manager: EntityManager) => Promise<number>): Promise<number> {
    return (await whenAlone(this.dataSource, ROLL_UP_LOCK, work)) ?? 0;
  }
}

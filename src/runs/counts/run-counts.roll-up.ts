import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { inBatches } from '../../database/in-batches.js';
import { whenAlone } from '../../database/advisory-locks.js';
import { RunCountsRepository } from './run-counts.repository.js';

/** Minutes that are shown one by one. */
export const SHOWN_MINUTES = 60;

/** Rows that one transaction takes at most. */
export const ROWS_PER_BATCH = 2000;

const MINUTE_MS = 60_000;
const ROLL_UP_LOCK = '6031175942280514';

/** Whole minutes after which the seconds of a minute are summed up: by then nobody writes to them. */
const KEPT_APART = 2;

/** Sums up what is no longer shown apart: seconds of minutes that are over, and minutes, so that reading stays quick. */
@Injectable()
export class RunCountsRollUp {
  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
  ) {}

  /**
   * One pass, in batches that are each a short transaction. Several processes may run it: one at a time works, the
   * others leave it to that one.
   * @param now the database's time
   * @param stop ends the pass between two batches
   * @returns how many rows were summed up
   */
  runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const minute = Math.floor(now.getTime() / MINUTE_MS);
    const seconds = new Date((minute - KEPT_APART) * MINUTE_MS);
    const minutes = new Date((minute - SHOWN_MINUTES) * MINUTE_MS);
    return inBatches(ROWS_PER_BATCH, stop, async () => {
      const removed = await whenAlone(this.dataSource, ROLL_UP_LOCK, (manager) =>
        this.counts.rollUp(manager, seconds, minutes, ROWS_PER_BATCH),
      );
      return removed ?? 0;
    });
  }
}

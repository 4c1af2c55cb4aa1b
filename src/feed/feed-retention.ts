import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { whenAlone } from '../database/advisory-locks.js';
import { Settings } from '../config/settings.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedRetentionRepository } from './feed-retention.repository.js';

const DAY_MS = 86_400_000;
const BATCH = 500;
const RETENTION_LOCK = '7420958811263390';

/** What one pass did. */
export interface FeedRetentionCounts {
  /** Entries removed. */
  readonly entries: number;
}

/** Removes what has been on the feeds for longer than the settings say. */
@Injectable()
export class FeedRetention {
  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: FeedRetentionRepository,
    private readonly settings: Settings,
    private readonly metrics: FeedMetrics,
  ) {}

  /**
   * One pass, in batches that are each a short transaction. Several processes may run it: one at a time works, the
   * others leave it to that one.
   * @param now the database's time
   * @param stop ends the pass between two batches
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<FeedRetentionCounts> {
    const { feedRetentionDays } = this.settings;
    if (feedRetentionDays === 0) return { entries: 0 };
    const before = new Date(now.getTime() - feedRetentionDays * DAY_MS);
    let from = new Date(0);
    let entries = 0;
    for (;;) {
      if (stop?.aborted === true) break;
      const batch = await whenAlone(this.dataSource, RETENTION_LOCK, (manager) =>
        this.repository.removeHeads(manager, from, before, BATCH),
      );
      if (batch === null) break;
      entries += batch.deleted;
      this.metrics.countExpired(batch.deleted);
      if (batch.reached === null || batch.examined < BATCH) break;
      // What could not be removed yet is not looked at again in this pass: it must not keep the rest from its turn.
      from = batch.deleted > 0 ? batch.reached : new Date(batch.reached.getTime() + 1);
    }
    return { entries };
  }
}

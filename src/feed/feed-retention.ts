import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Settings } from '../config/settings.js';
import { rows } from '../database/sql/sql.js';
import { whenAlone } from '../database/advisory-locks.js';
import { paced } from '../database/sql/in-batches.js';
import { FeedMetrics } from './feed-metrics.js';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../common/scheduling/scheduled-job.js';

const DAY_MS = 86_400_000;
const BATCH = 500;
const RETENTION_LOCK = '7420958811263390';

/** Removes entries that have been on the feeds for longer than the settings say, so that run retention can remove runs. */
@Injectable()
export class FeedRetention {
  constructor(
    private readonly dataSource: DataSource,
    private readonly settings: Settings,
    private readonly metrics: FeedMetrics,
  ) {}

  @ScheduledJob({
    name: 'feed_retention',
    description: 'removes feed entries older than the retention time',
    ...RETENTION,
    everyMs: 5 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return (await this.runOnce(await now(), stop)).entries;
  }

  /**
   * Removes entries in batches that are each a short transaction, with pauses between them. If several processes run it,
   * one of them works.
   * @param now the database's time
   * @param stop ends the pass between two batches
   * @returns the number of removed entries
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<{ readonly entries: number }> {
    const { feedRetentionDays, runRetentionDays } = this.settings;
    // Feeds without a retention of their own keep no entry of a run that run retention is to remove.
    const days = feedRetentionDays === 0 ? runRetentionDays : feedRetentionDays;
    if (days === 0) return { entries: 0 };
    const before = new Date(now.getTime() - days * DAY_MS);
    let from = new Date(0);
    let entries = 0;
    for (;;) {
      if (stop?.aborted === true) break;
      const after = from;
      const batch = await paced(stop, () =>
        whenAlone(this.dataSource, RETENTION_LOCK, (manager) => removeHeads(manager, after, before)),
      );
      if (batch === null) break;
      entries += batch.deleted;
      this.metrics.expiredEntries.inc(batch.deleted);
      if (batch.newest === null || batch.examined < BATCH) break;
      // Entries that cannot be removed yet are skipped for the rest of the pass, so that they do not block the others.
      from = batch.deleted > 0 ? batch.newest : new Date(batch.newest.getTime() + 1);
    }
    return { entries };
  }
}

interface Batch {
  /** Number of examined entries, oldest first, and the time of the newest. */
  readonly examined: number;
  readonly newest: Date | null;
  readonly deleted: number;
}

/**
 * Removes entries recorded from one time to another from the heads of feeds, so that no feed gets a hole: an old entry
 * after a younger one is kept. Locks the topics in topic order, as appending does.
 */
async function removeHeads(manager: EntityManager, from: Date, before: Date): Promise<Batch> {
  const [row] = await rows<{ examined: string; newest: Date | null; deleted: string }>(
    manager,
    `with oldest as materialized (
         select topic, recorded_at
           from feed_entries
          where recorded_at >= $1::timestamptz
            and recorded_at < $2::timestamptz
          order by recorded_at
          limit $3::integer
       ),
       wanted as materialized (
         select topic, count(*) as n
           from oldest
          group by topic
       ),
       locked as materialized (
         select t.topic, t.first_position, w.n
           from feed_topics t
           join wanted w on w.topic = t.topic
          order by t.topic
            for update of t
       ),
       expired as materialized (
         select l.topic, head.position
           from locked l
          cross join lateral (
            select h.position,
                   bool_and(h.recorded_at < $2::timestamptz) over (order by h.position) as is_expired
              from (
                select position, recorded_at
                  from feed_entries
                 where topic = l.topic
                   and position >= l.first_position
                 order by position
                 limit l.n
              ) h
          ) head
          where head.is_expired
       ),
       raised as (
         update feed_topics t
            set first_position = e.newest + 1
           from (select topic, max(position) as newest from expired group by topic) e
          where t.topic = e.topic
       ),
       deleted as (
         delete from feed_entries f
          using expired e
          where f.topic = e.topic
            and f.position = e.position
      returning f.position
       )
       select (select count(*) from oldest) as examined,
              (select max(recorded_at) from oldest) as newest,
              (select count(*) from deleted) as deleted`,
    [from.toISOString(), before.toISOString(), BATCH],
  );
  return {
    examined: Number(row?.examined),
    newest: row?.newest ?? null,
    deleted: Number(row?.deleted),
  };
}

import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Settings } from '../config/settings.js';
import { rows } from '../database/sql/sql.js';
import { whenAlone } from '../database/advisory-locks.js';
import { paced } from '../database/sql/in-batches.js';
import { FeedMetrics } from './feed-metrics.js';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../common/scheduling/scheduled-job.js';

const DAY_MS = 86_400_000;
const ENTRIES_PER_BATCH = 500;
/** The topics of a batch share its entries evenly. */
const TOPICS_PER_BATCH = 100;
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
    const before = this.#before(now);
    if (before === null) return { entries: 0 };
    let entries = 0;
    for (;;) {
      if (stop?.aborted === true) return { entries };
      const removed = await paced(stop, () =>
        whenAlone(this.dataSource, RETENTION_LOCK, (manager) => removeHeads(manager, before)),
      );
      if (removed === null) return { entries };
      entries += removed;
      this.metrics.expiredEntries.inc(removed);
    }
  }

  /** How many entries a pass would remove. @param limit after which it counts no further */
  async count(now: Date, limit: number): Promise<number> {
    const before = this.#before(now);
    if (before === null) return 0;
    const [due] = await rows<{ entries: string }>(
      this.dataSource,
      `select count(*) as entries
         from (
                select
                  from feed_topics t
                 cross join lateral (
                         select
                           from feed_entries
                          where topic = t.topic
                            and position >= t.first_position
                            and position < coalesce(
                                  (
                                    select position
                                      from (
                                             select position, recorded_at
                                               from feed_entries
                                              where topic = t.topic
                                                and position >= t.first_position
                                              order by position
                                              limit $2::integer
                                           ) h
                                     where recorded_at >= $1::timestamptz
                                     order by position
                                     limit 1
                                  ),
                                  t.last_position + 1
                                )
                       ) e
                 where t.oldest_at < $1::timestamptz
                 limit $2::integer
              ) d`,
      [before.toISOString(), limit],
    );
    return Number(due?.entries);
  }

  /** The time before which entries that are due were recorded; null: there is no retention. */
  #before(now: Date): Date | null {
    const { feedRetentionDays, runRetentionDays } = this.settings;
    // Feeds without a retention of their own keep no entry of a run that run retention is to remove.
    const days = feedRetentionDays === 0 ? runRetentionDays : feedRetentionDays;
    return days === 0 ? null : new Date(now.getTime() - days * DAY_MS);
  }
}

/**
 * Removes entries recorded before the time from the heads of the feeds with the oldest ones, so that no feed gets a hole: an
 * old entry after a younger one is kept. What others have removed from a head is made up for, so that each batch brings its
 * feeds forward.
 * @returns the number of removed entries, null if no feed has such a head
 */
async function removeHeads(manager: EntityManager, before: Date): Promise<number | null> {
  // Locks the topics in topic order, as appending does. The next statement sees all that was appended before.
  const locked = await rows<{ topic: string }>(
    manager,
    `with due as materialized (
         select topic
           from feed_topics
          where oldest_at < $1::timestamptz
          order by oldest_at
          limit $2::integer
       )
       select t.topic
         from feed_topics t
         join due d on d.topic = t.topic
        order by t.topic
          for update of t`,
    [before.toISOString(), TOPICS_PER_BATCH],
  );
  if (locked.length === 0) return null;
  const [row] = await rows<{ removed: string }>(
    manager,
    `with heads as materialized (
         select t.topic, t.first_position, h.position, h.recorded_at
           from feed_topics t
           left join lateral (
             select position, recorded_at
               from feed_entries
              where topic = t.topic
                and position >= t.first_position
              order by position
              limit $3::integer
           ) h on true
          where t.topic = any($1::text[])
       ),
       kept as materialized (
         select topic,
                coalesce(
                  min(position) filter (where recorded_at >= $2::timestamptz),
                  max(position) + 1,
                  first_position
                ) as first_position
           from heads
          group by topic, first_position
       ),
       raised as (
         update feed_topics t
            set first_position = k.first_position,
                oldest_at = (
                  select recorded_at
                    from feed_entries
                   where topic = k.topic
                     and position >= k.first_position
                   order by position
                   limit 1
                )
           from kept k
          where t.topic = k.topic
       ),
       deleted as (
         delete from feed_entries f
          using heads h
           join kept k on k.topic = h.topic
          where h.position < k.first_position
            and f.topic = h.topic
            and f.position = h.position
      returning f.position
       )
       select count(*) as removed
         from deleted`,
    [locked.map(({ topic }) => topic), before.toISOString(), Math.floor(ENTRIES_PER_BATCH / locked.length)],
  );
  return Number(row?.removed);
}

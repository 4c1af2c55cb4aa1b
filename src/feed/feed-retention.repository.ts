import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { rows } from '../database/sql.js';

/** What one batch did. */
export interface FeedBatch {
  /** Entries looked at, oldest first by time. */
  readonly examined: number;
  /** Time of the newest of these; null when there were none. */
  readonly reached: Date | null;
  readonly deleted: number;
}

/** SQL of the feed's retention. */
@Injectable()
export class FeedRetentionRepository {
  /**
   * Removes expired entries from the heads of feeds and has the feeds begin behind them. Only a head is ever removed:
   * an entry that is older than one before it waits for that one, so no feed gets a hole. The topics' counters are
   * locked in topic order, as those who append do.
   * @param from time at which to begin looking
   * @param before entries of this time and later are kept
   * @param limit most entries to look at, and to remove
   */
  async removeHeads(manager: EntityManager, from: Date, before: Date, limit: number): Promise<FeedBatch> {
    const [row] = await rows<{ examined: string; reached: Date | null; deleted: string }>(
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
              (select max(recorded_at) from oldest) as reached,
              (select count(*) from deleted) as deleted`,
      [from.toISOString(), before.toISOString(), limit],
    );
    return {
      examined: Number(row?.examined ?? 0),
      reached: row?.reached ?? null,
      deleted: Number(row?.deleted ?? 0),
    };
  }
}

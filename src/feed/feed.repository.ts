import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, unnestRows } from '../database/sql.js';

/** An event that is to appear on a topic's feed. */
export interface FeedAppend {
  readonly topic: string;
  readonly runId: string;
  readonly eventIndex: number;
  readonly recordedAt: Date;
}

/** SQL of the feed. */
@Injectable()
export class FeedRepository {
  /**
   * Appends entries to their topics' feeds, in the given order within a topic, numbered densely.
   * It takes the topics' counters in topic order and holds them until the commit, so positions are in commit order;
   * therefore it is the last statement of its transaction.
   */
  async append(manager: EntityManager, entries: readonly FeedAppend[]): Promise<void> {
    const source = unnestRows(
      { n: 'integer', topic: 'text', run_id: 'uuid', event_index: 'integer', recorded_at: 'timestamptz' },
      entries.map((entry, n) => ({
        n,
        topic: entry.topic,
        run_id: entry.runId,
        event_index: entry.eventIndex,
        recorded_at: entry.recordedAt,
      })),
    );
    await execute(
      manager,
      `with added as materialized (
         select v.*, row_number() over (partition by v.topic order by v.n) as nth
           from ${source.sql}
       ),
       counters as (
         insert into feed_topics as f (topic, last_position)
         select topic, count(*)
           from added
          group by topic
          order by topic
             on conflict (topic) do update
            set last_position = f.last_position + excluded.last_position
      returning f.topic, f.last_position
       )
       insert into feed_entries (topic, position, run_id, event_index, recorded_at)
       select a.topic,
              c.last_position - count(*) over (partition by a.topic) + a.nth,
              a.run_id, a.event_index, a.recorded_at
         from added a
         join counters c on c.topic = a.topic`,
      source.params,
    );
  }
}

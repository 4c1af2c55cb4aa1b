import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { EventEntity } from '../database/entities/event.entity.js';
import { FeedEntryEntity, FeedTopicEntity } from '../database/entities/feed.entity.js';
import { EntityTable } from '../database/entity-table.js';
import { execute, rows, type SqlExecutor } from '../database/sql.js';
import type { JsonObject } from '@longshore/common/json/json-value';

/** Channel on which appends are announced, as `<last position> <topic>`. */
export const FEED_CHANNEL = 'longshore_feed';

/** An event that is to appear on a topic's feed. */
export interface FeedAppend {
  readonly topic: string;
  readonly runId: string;
  readonly eventIndex: number;
  readonly recordedAt: Date;
}

/** An entry of a feed together with the event it points at. */
export interface FeedEventRow {
  readonly position: number;
  readonly runId: string;
  readonly attempt: number;
  readonly type: string;
  readonly msg: string | number;
  readonly t: Date;
  readonly state: string;
  readonly payload: JsonObject;
}

/** A stretch of a feed. */
export interface FeedRows {
  /** Position of the oldest entry that is kept; 1 for a topic that nobody has used. */
  readonly first: number;
  /** Position of the newest entry ever made, 0 for none. */
  readonly last: number;
  readonly entries: readonly FeedEventRow[];
  /** More entries follow these. */
  readonly hasMore: boolean;
}

/** How far a feed reaches, as in FeedRows. */
export type FeedBounds = Pick<FeedRows, 'first' | 'last'>;

/** Where to read, and how much. */
export interface FeedRange {
  readonly topic: string;
  /** Only entries behind this position; null for all that are kept. */
  readonly after: number | null;
  readonly limit: number;
  /** Bytes of messages and payloads at which a stretch ends; the first entry is read whatever its size. */
  readonly maxBytes: number;
}

type JoinedRow = FeedEventRow & {
  readonly first: string;
  readonly last: string;
  readonly entryPosition: string | null;
  readonly found: string;
};

const TOPICS = new EntityTable(FeedTopicEntity);
const ENTRIES = new EntityTable(FeedEntryEntity);
const EVENTS = new EntityTable(EventEntity);

const REFERENCE = ENTRIES.except('topic', 'position');
const NEW_ENTRIES = ENTRIES.unnest(['topic', ...REFERENCE], { extra: { n: 'integer' } });
const APPEND = `with added as materialized (
         select v.*, row_number() over (partition by v.topic order by v.n) as nth
           from ${NEW_ENTRIES.sql}
       ),
       counters as (
         insert into ${TOPICS.name} as f (topic, last_position)
         select topic, count(*)
           from added
          group by topic
          order by topic
             on conflict (topic) do update
            set last_position = f.last_position + excluded.last_position
      returning f.topic, f.last_position
       ),
       appended as (
         insert into ${ENTRIES.name} (topic, position, ${ENTRIES.columns(REFERENCE)})
         select a.topic,
                c.last_position - count(*) over (partition by a.topic) + a.nth,
                ${ENTRIES.columns(REFERENCE, 'a')}
           from added a
           join counters c on c.topic = a.topic
       )
       select pg_notify('${FEED_CHANNEL}', last_position || ' ' || topic)
         from counters`;

/** Columns of the event that an entry references. */
const CONTENT = ['runId', 'attempt', 'type', 'msg', 't', 'state', 'payload'] as const;

/** SQL of the feed: what is appended and what is read. */
@Injectable()
export class FeedRepository {
  /**
   * Appends entries to their topics' feeds, in the given order within a topic, numbered densely, and has the commit
   * announce each topic. It takes the topics' counters in topic order and holds them until the commit, so positions
   * are in commit order; therefore it is the last statement of its transaction.
   */
  async append(manager: EntityManager, entries: readonly FeedAppend[]): Promise<void> {
    await execute(manager, APPEND, NEW_ENTRIES.params(entries, { n: (_, n) => n }));
  }

  /** How far a topic's feed reaches. */
  async findBounds(executor: SqlExecutor, topic: string): Promise<FeedBounds> {
    const [bounds] = await rows<Record<keyof FeedBounds, string>>(
      executor,
      `select first_position as first, last_position as last
         from ${TOPICS.name}
        where topic = $1::text`,
      [topic],
    );
    return { first: Number(bounds?.first ?? 1), last: Number(bounds?.last ?? 0) };
  }

  /**
   * A stretch of a feed, oldest first, as one snapshot. An entry is kept exactly as long as its event: whoever deletes
   * events deletes what points at them.
   */
  async list(executor: SqlExecutor, range: FeedRange): Promise<FeedRows> {
    const { topic, after, limit, maxBytes } = range;
    // One entry more than asked for tells whether any follow.
    const found = await rows<JoinedRow>(
      executor,
      `select t.first_position as first, t.last_position as last,
              p.position as "entryPosition", p.found,
              ${EVENTS.select('p', CONTENT)}
         from ${TOPICS.name} t
         left join lateral (
           select f.position, ${EVENTS.columns(CONTENT, 'e')},
                  count(*) over () as found,
                  sum(octet_length(e.msg::text) + octet_length(e.payload::text)) over (
                    order by f.position
                     rows between unbounded preceding and 1 preceding
                  ) as bytes_before
             from (
               select position, run_id, event_index
                 from ${ENTRIES.name}
                where topic = t.topic
                  and position > greatest($2::bigint, t.first_position - 1)
                order by position
                limit $3::integer + 1
             ) f
             join ${EVENTS.name} e on e.run_id = f.run_id and e.index = f.event_index
         ) p on coalesce(p.bytes_before, 0) < $4::bigint
        where t.topic = $1::text
        order by p.position
        limit $3::integer`,
      [topic, after ?? 0, limit, maxBytes],
    );
    const [head] = found;
    if (head === undefined) return { first: 1, last: 0, entries: [], hasMore: false };
    const entries = found.flatMap((row) =>
      row.entryPosition === null ? [] : [toEventRow(row, Number(row.entryPosition))],
    );
    return {
      first: Number(head.first),
      last: Number(head.last),
      entries,
      hasMore: Number(head.found ?? 0) > entries.length,
    };
  }
}

function toEventRow(row: JoinedRow, position: number): FeedEventRow {
  const { runId, attempt, type, msg, t, state, payload } = row;
  return { position, runId, attempt, type, msg, t, state, payload };
}

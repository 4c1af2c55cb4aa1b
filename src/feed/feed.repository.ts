import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Settings } from '../config/settings.js';
import { CHANNEL, POSITIONS_BYTES, textsOf, type CommitNotice } from '../database/notices/commit-notice.js';
import { RowArrays, rows, type SqlExecutor } from '../database/sql/sql.js';
import type { FeedEvent } from './cache/feed-tail.js';

export interface FeedAppend {
  readonly topic: string;
  readonly runId: string;
  readonly eventIndex: number;
  readonly recordedAt: Date;
}

/** An entry of a feed with the event that it references, and attributes, name and labels of its run. */
export interface FeedEventRow extends FeedEvent {
  readonly position: number;
}

/** Positions of the oldest stored entry and of the newest one ever. */
export interface FeedBounds {
  readonly first: number;
  readonly last: number;
}

/** The bounds of a topic that no event has used. */
export const UNUSED: FeedBounds = { first: 1, last: 0 };

export interface FeedRows extends FeedBounds {
  /** Position up to which all entries were read. */
  readonly end: number;
  readonly entries: readonly FeedEventRow[];
  readonly hasMore: boolean;
}

export interface FeedRange {
  readonly topic: string;
  /** Only entries after this position; null for all that are kept. */
  readonly after: number | null;
  /** Token of the epoch in which `after` is a position. */
  readonly epoch: string | null;
  readonly limit: number;
  /** Bytes of messages, payloads, attributes, names and labels at which to stop; the first entry is read whatever its size. */
  readonly maxBytes: number;
}

type JoinedRow = Omit<FeedEventRow, 'position' | 'type'> & {
  /** null: the event was removed by hand. */
  readonly type: string | null;
  readonly first: string;
  readonly last: string;
  readonly entryPosition: string | null;
  readonly found: string;
};

interface BoundsRow {
  readonly topic: string;
  readonly first: string;
  readonly last: string;
}

// Of a feed with entries only `last_position` changes, so that the update writes no index. The notice of the commit, in texts by `textsOf`, is
// sent with the positions of the topics.
const APPEND = `with added as materialized (
         select v.*, row_number() over (partition by v.topic order by v.n) as nth
           from unnest($2::text[], $3::uuid[], $4::integer[], $5::timestamptz[], $6::integer[])
                as v (topic, run_id, event_index, recorded_at, n)
       ),
       counters as (
         insert into feed_topics as f (topic, last_position, oldest_at)
         select topic, count(*), min(recorded_at) filter (where nth = 1)
           from added
          group by topic
          order by topic
             on conflict (topic) do update
            set last_position = f.last_position + excluded.last_position,
                oldest_at = coalesce(f.oldest_at, excluded.oldest_at)
      returning f.topic, f.last_position
       ),
       appended as (
         insert into feed_entries (topic, position, run_id, event_index, recorded_at)
         select a.topic,
                c.last_position - count(*) over (partition by a.topic) + a.nth,
                a.run_id, a.event_index, a.recorded_at
           from added a
           join counters c on c.topic = a.topic
       )
       select topic, last_position as last,
              (
                select count(pg_notify('${CHANNEL}', coalesce(n.text || p.text, n.text, p.text)::text))
                  from (
                    select nth, jsonb_build_object('topics', jsonb_object_agg(topic, last_position)) as text
                      from (
                        select topic, last_position,
                               1 + sum(octet_length(to_json(topic)::text) + 24) over (order by topic) / ${POSITIONS_BYTES} as nth
                          from counters
                      ) numbered
                     group by nth
                  ) p
                  full join unnest($1::jsonb[]) with ordinality as n (text, nth) on n.nth = p.nth
              )
         from counters`;
const NEW_ENTRIES = RowArrays.of<keyof FeedAppend | 'n'>(APPEND);

@Injectable()
export class FeedRepository {
  constructor(@Inject(Settings) private readonly settings: Pick<Settings, 'feedEnabled'>) {}

  get isEnabled(): boolean {
    return this.settings.feedEnabled;
  }

  /**
   * Appends entries to their topics' feeds, and sends the notice of the commit. It locks the topics' counters until the commit,
   * so that positions are in commit order: use it as the last statement.
   * @returns by topic, the position of its last entry; those of a topic have consecutive positions
   */
  async append(
    manager: EntityManager,
    entries: readonly FeedAppend[],
    notice: CommitNotice = {},
  ): Promise<ReadonlyMap<string, number>> {
    const params = [textsOf(notice), ...NEW_ENTRIES.params(entries, { n: (_, n) => n })];
    const counters = await rows<Omit<BoundsRow, 'first'>>(manager, APPEND, params);
    return new Map(counters.map(({ topic, last }) => [topic, Number(last)]));
  }

  /** The bounds of those of the topics that events have used. */
  async findBounds(
    executor: SqlExecutor,
    topics: readonly string[],
  ): Promise<ReadonlyMap<string, FeedBounds>> {
    const found = await rows<BoundsRow>(
      executor,
      `select topic, first_position as first, last_position as last
         from feed_topics
        where topic = any($1::text[])`,
      [topics],
    );
    return new Map(
      found.map(({ topic, first, last }) => [topic, { first: Number(first), last: Number(last) }]),
    );
  }

  /** Entries of a feed, oldest first, without those whose events were removed by hand. */
  async list(executor: SqlExecutor, range: FeedRange): Promise<FeedRows> {
    const { topic, after, limit, maxBytes } = range;
    // Reads one entry more than the limit, to know whether any follow.
    const found = await rows<JoinedRow>(
      executor,
      `select t.first_position as first, t.last_position as last,
              p.position as "entryPosition", p.found, p.msg, p.payload, p.attributes, p.name, p.labels,
              p.run_id as "runId", p.attempt, p.type, p.t, p.state
         from feed_topics t
         left join lateral (
           select f.position, e.run_id, e.attempt, e.type, e.t, e.state, r.attributes, r.name, r.labels,
                  e.msg::text as msg, e.payload::text as payload,
                  count(*) over () as found,
                  sum(coalesce(e.size, 0) + coalesce(octet_length(concat(r.attributes, r.name, r.labels)), 0)) over (
                    order by f.position
                     rows between unbounded preceding and 1 preceding
                  ) as bytes_before
             from (
               select position, run_id, event_index
                 from feed_entries
                where topic = t.topic
                  and position > greatest($2::bigint, t.first_position - 1)
                order by position
                limit $3::integer + 1
             ) f
             left join events e on e.run_id = f.run_id and e.index = f.event_index
             left join lateral (
               -- The limit makes it one lookup by id for each entry, however many runs there are.
               select attributes::text as attributes, name, labels::text as labels
                 from runs
                where id = f.run_id
                limit 1
             ) r on true
         ) p on coalesce(p.bytes_before, 0) < $4::bigint
        where t.topic = $1::text
        order by p.position
        limit $3::integer`,
      [topic, after ?? 0, limit, maxBytes],
    );
    const [head] = found;
    if (head === undefined) return { ...UNUSED, end: UNUSED.last, entries: [], hasMore: false };
    const [first, last] = [Number(head.first), Number(head.last)];
    const entries = found.flatMap(({ type, entryPosition, ...row }) =>
      type === null ? [] : [{ ...row, type, position: Number(entryPosition) }],
    );
    const hasMore = Number(head.found ?? 0) > found.length;
    return { first, last, end: hasMore ? Number(found.at(-1)?.entryPosition) : last, entries, hasMore };
  }
}

import { Injectable } from '@nestjs/common';
import { EventEntity } from '../../database/entities/event.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { rows, type SqlExecutor } from '../../database/sql.js';
import type { TimelineRow } from './event.repository.js';

/** A place in the order of all events: right behind one of them. */
export interface EventPlace {
  /** `events.commit_order` as decimal text. */
  readonly commitOrder: string;
  readonly runId: string;
  readonly index: number;
}

/** An event with its place in the order of all events, the topic of its run and the worker of its attempt. */
export interface CommittedEventRow extends TimelineRow {
  readonly commitOrder: string;
  readonly topic: string | null;
  readonly workerId: string | null;
  /** How many events were found, including those beyond the page. */
  readonly found: string;
}

/** What a page may hold at most. */
export interface EventPageLimits {
  readonly events: number;
  /** Bytes of messages and payloads at which the page ends; it holds one event at least. */
  readonly bytes: number;
}

const EVENTS = new EntityTable(EventEntity);
const COLUMNS = EVENTS.select('p', EVENTS.except('size'));

/** SQL of the order of all events (migration 012). */
@Injectable()
export class CommittedEventRepository {
  /**
   * The events behind a place, in order. It stops before the first event that a transaction which is still open could
   * precede, so nothing that is committed later belongs before a page that was read.
   */
  list(executor: SqlExecutor, after: EventPlace, limits: EventPageLimits): Promise<CommittedEventRow[]> {
    // One event more than asked for tells whether any follow.
    return rows<CommittedEventRow>(
      executor,
      `select ${COLUMNS}, p.found, r.topic,
              case when r.attempt = p.attempt then r.worker_id else a.worker_id end as "workerId"
         from (
           select e.*, count(*) over () as found,
                  sum(e.size) over (order by e.commit_order, e.run_id, e.index) - e.size as bytes_before
             from (
               select *
                 from ${EVENTS.name}
                where (commit_order, run_id, index) > ($1::bigint, $2::uuid, $3::integer)
                  and commit_order < commit_order_bound()
                order by commit_order, run_id, index
                limit $4::integer + 1
             ) e
         ) p
         left join runs r on r.id = p.run_id
         left join attempts a on a.run_id = p.run_id and a.attempt = p.attempt
        where p.bytes_before < $5::bigint
        order by p.commit_order, p.run_id, p.index
        limit $4::integer`,
      [after.commitOrder, after.runId, after.index, limits.events, limits.bytes],
    );
  }
}

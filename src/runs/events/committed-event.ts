import type { JsonObject } from '@longshore/common/json/json-value';
import { EventEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows, type SqlExecutor } from '../../database/sql/sql.js';
import type { TimelineRow } from './event.repository.js';

/** An event of a run that is committed, with the field names that the HTTP API uses. */
export interface CommittedEvent {
  readonly run_id: string;
  /** Position in the timeline of the run, from 0, without gaps. */
  readonly index: number;
  /** Number of the attempt that it belongs to, 1-based. */
  readonly attempt: number;
  readonly type: string;
  readonly msg: string | number;
  readonly t: string;
  /** State of the run after the event. */
  readonly state: string;
  readonly payload: JsonObject;
  /** Topic of the run's feed; null if the run has none. */
  readonly topic: string | null;
  /** Worker of the attempt; null if it has none, or none yet. */
  readonly worker_id: string | null;
}

export function toCommittedEvent(
  { runId, index, attempt, type, msg, t, state, payload }: Readonly<TimelineRow>,
  { topic, workerId }: { readonly topic: string | null; readonly workerId: string | null },
): CommittedEvent {
  return {
    run_id: runId,
    index,
    attempt,
    type,
    msg,
    t: t.toISOString(),
    state,
    payload,
    topic,
    worker_id: workerId,
  };
}

/** A place in the order of all events: right after one of them. */
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

const EVENTS = new EntityTable(EventEntity);
const COLUMNS = EVENTS.select('p', EVENTS.except('size', 'sender'));

/**
 * The events after a place, in order. It stops before the first event that a transaction which is still open could
 * precede, so nothing that is committed later belongs before a page that was read.
 */
export function listCommittedEvents(
  executor: SqlExecutor,
  after: EventPlace,
  limits: { readonly events: number; readonly bytes: number },
): Promise<CommittedEventRow[]> {
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

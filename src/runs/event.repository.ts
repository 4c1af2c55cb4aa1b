import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { EventEntity } from '../database/entities/event.entity.js';
import { execute, rows, unnestRows } from '../database/sql.js';
import type { TimelineEntry } from './run-machine/run.js';

/** A stretch of a timeline: indexes from `from` (inclusive) to `to` (exclusive). */
export interface TimelineRange {
  readonly from: number;
  readonly to: number;
}

const COLUMNS = 'e.run_id as "runId", e.index, e.attempt, e.type, e.state, e.t, e.msg, e.payload';

/** SQL of the table `events`, the timelines of all runs. */
@Injectable()
export class EventRepository {
  /** Entries of one run within any of the ranges, in order of their index. */
  listRanges(
    manager: EntityManager,
    runId: string,
    ranges: readonly TimelineRange[],
  ): Promise<EventEntity[]> {
    return rows<EventEntity>(
      manager,
      `select ${COLUMNS}
         from unnest($2::integer[], $3::integer[]) as range (first, past)
         join events e on e.run_id = $1::uuid and e.index >= range.first and e.index < range.past
        order by e.index`,
      [runId, ranges.map(({ from }) => from), ranges.map(({ to }) => to)],
    );
  }

  /**
   * Entries of one run within the range, in order of their index, until their messages and payloads come to `maxBytes`
   * or more: at least one, if there is any. Row by row, so that nothing is read that is not answered.
   */
  listPage(
    manager: EntityManager,
    runId: string,
    range: TimelineRange,
    maxBytes: number,
  ): Promise<EventEntity[]> {
    return rows<EventEntity>(
      manager,
      `with recursive page as (
         select e.run_id, e.index, e.attempt, e.type, e.state, e.t, e.msg, e.payload,
                octet_length(e.msg::text)::bigint + octet_length(e.payload::text) as bytes
           from events e
          where e.run_id = $1::uuid and e.index = $2::integer and e.index < $3::integer
          union all
         select e.run_id, e.index, e.attempt, e.type, e.state, e.t, e.msg, e.payload,
                p.bytes + octet_length(e.msg::text) + octet_length(e.payload::text)
           from page p
           join events e on e.run_id = $1::uuid and e.index = p.index + 1
          where p.bytes < $4::bigint and e.index < $3::integer
       )
       select ${COLUMNS}
         from page e
        order by e.index`,
      [runId, range.from, range.to, maxBytes],
    );
  }

  /** Appends entries to the timelines of runs that the caller has locked. */
  async append(manager: EntityManager, entries: readonly TimelineEntry[]): Promise<void> {
    const source = unnestRows(
      {
        run_id: 'uuid',
        index: 'integer',
        attempt: 'integer',
        type: 'text',
        state: 'text',
        t: 'timestamptz',
        msg: 'json',
        payload: 'json',
      },
      entries.map((entry) => ({
        run_id: entry.runId,
        index: entry.index,
        attempt: entry.attempt,
        type: entry.type,
        state: entry.state,
        t: entry.t,
        msg: JSON.stringify(entry.msg),
        payload: JSON.stringify(entry.payload),
      })),
    );
    await execute(
      manager,
      `insert into events (run_id, index, attempt, type, state, t, msg, payload)
       select run_id, index, attempt, type, state, t, msg, payload
         from ${source.sql}`,
      source.params,
    );
  }
}

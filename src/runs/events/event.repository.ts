import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { EventEntity } from '../../database/entities/run.entity.js';
import { execute, RowArrays, rows } from '../../database/sql/sql.js';
import { jsonText } from '@longshore/common/json/json-text';
import type { TimelineEntry } from '../machine/run.js';

/** An entry of a timeline as it is read. */
export type TimelineRow = Omit<EventEntity, 'size' | 'commitOrder' | 'sender'>;

/** An entry of a timeline with the API key that sent it. */
export type SentTimelineRow = TimelineRow & Pick<EventEntity, 'sender'>;

/** A range of a run's timeline: indexes from `from` (inclusive) to `to` (exclusive). */
export interface TimelineRange {
  readonly runId: string;
  readonly from: number;
  readonly to: number;
}

/** A launcher's report that it submitted an attempt to its engine. */
export interface Submission {
  /** Name of the engine. */
  readonly engine: string;
  /** Of the job in the engine. */
  readonly engineId: string;
  /** Why the job waits, in the engine's words; null: it gives none. */
  readonly reason: string | null;
  readonly t: Date;
}

/** What the worker of an attempt prepares. */
export interface Preparation {
  /** What it waits for, as it says itself. */
  readonly what: string;
  readonly t: Date;
}

/** Longest name of an engine and id of a job that is read, in characters. */
const MAX_NAME = 200;

/** Longest reason that is read, in characters. */
const MAX_REASON = 2000;

/** A larger SUBMITTED is not read. */
const MAX_SUBMISSION_BYTES = 65_536;

const COLUMNS = `e.run_id as "runId", e.index, e.attempt, e.type, e.state, e.t, e.msg, e.payload`;

// The default of commit_order would be computed for each row.
const INSERT = `insert into events (run_id, index, attempt, type, state, t, msg, payload, size, sender, commit_order)
       select v.*, (select next_commit_order())
         from unnest(
                $1::uuid[], $2::integer[], $3::integer[], $4::text[], $5::text[], $6::timestamptz[], $7::json[], $8::json[],
                $9::integer[], $10::uuid[]
              ) as v (run_id, index, attempt, type, state, t, msg, payload, size, sender)`;
const NEW_EVENTS = RowArrays.of<Exclude<keyof EventEntity, 'commitOrder'>>(INSERT);

/** SQL of the table `events`, the timelines of all runs. The column `size` bounds the bytes of every read. */
@Injectable()
export class EventRepository {
  /**
   * The newest entries of every range, each range's in order of their index, as many as fit into `maxBytes`. The
   * ranges of one run must not overlap.
   */
  listNewest(
    manager: EntityManager,
    ranges: readonly TimelineRange[],
    maxBytes: number,
  ): Promise<TimelineRow[]> {
    return rows<TimelineRow>(
      manager,
      `select ${COLUMNS}
         from (
           select e.*, sum(e.size) over (partition by w.n order by e.index desc) - e.size as newer_bytes
             from unnest($1::uuid[], $2::integer[], $3::integer[])
                  with ordinality as w (run_id, first, past, n)
             join events e on e.run_id = w.run_id and e.index >= w.first and e.index < w.past
         ) e
        where e.newer_bytes + e.size <= $4::bigint
        order by e.run_id, e.index`,
      [
        ranges.map(({ runId }) => runId),
        ranges.map(({ from }) => from),
        ranges.map(({ to }) => to),
        Math.floor(maxBytes),
      ],
    );
  }

  /** The first entries of the range, in order: as many as come to `maxBytes`, and at least one if there is any. */
  listPage(manager: EntityManager, range: TimelineRange, maxBytes: number): Promise<SentTimelineRow[]> {
    return rows<SentTimelineRow>(
      manager,
      `select ${COLUMNS}, e.sender
         from (
           select e.*, sum(e.size) over (order by e.index) - e.size as older_bytes
             from events e
            where e.run_id = $1::uuid and e.index >= $2::integer and e.index < $3::integer
         ) e
        where e.older_bytes < $4::bigint
        order by e.index`,
      [range.runId, range.from, range.to, maxBytes],
    );
  }

  /**
   * The newest SUBMITTED of the range that names an engine and a job in it, recorded while the run was ASSIGNED and not before
   * `since`; null: none. A SUBMITTED that a program prints is recorded while the run is RUNNING.
   */
  async findSubmission(
    manager: EntityManager,
    range: TimelineRange,
    since: Date,
  ): Promise<Submission | null> {
    const [found = null] = await rows<Submission>(
      manager,
      `select left(e.payload ->> 'engine', ${MAX_NAME}) as engine,
              left(e.payload ->> 'engine_id', ${MAX_NAME}) as "engineId",
              case when json_typeof(e.payload -> 'reason') = 'string'
                   then nullif(left(e.payload ->> 'reason', ${MAX_REASON}), '')
              end as reason,
              e.t
         from events e
        where e.run_id = $1::uuid
          and e.index >= $2::integer
          and e.index < $3::integer
          and e.type = 'SUBMITTED'
          and e.state = 'ASSIGNED'
          and e.t >= $4::timestamptz
          and e.size <= ${MAX_SUBMISSION_BYTES}
          and json_typeof(e.payload -> 'engine') = 'string'
          and json_typeof(e.payload -> 'engine_id') = 'string'
        order by e.index desc
        limit 1`,
      [range.runId, range.from, range.to, since.toISOString()],
    );
    return found;
  }

  /** The newest PREPARING of the range; null: none. */
  async findPreparation(manager: EntityManager, range: TimelineRange): Promise<Preparation | null> {
    const [found = null] = await rows<Preparation>(
      manager,
      `select left(e.msg #>> '{}', ${MAX_REASON}) as what, e.t
         from events e
        where e.run_id = $1::uuid
          and e.index >= $2::integer
          and e.index < $3::integer
          and e.type = 'PREPARING'
        order by e.index desc
        limit 1`,
      [range.runId, range.from, range.to],
    );
    return found;
  }

  /** Appends entries to the timelines of runs that the caller has locked. */
  async append(manager: EntityManager, entries: readonly TimelineEntry[]): Promise<void> {
    const values = entries.map((entry) => {
      const msg = JSON.stringify(entry.msg);
      const payload = jsonText(entry.payload);
      const { runId, index, attempt, type, state, t, sender } = entry;
      const size = Buffer.byteLength(msg) + Buffer.byteLength(payload);
      return { runId, index, attempt, type, state, t, msg, payload, size, sender };
    });
    await execute(manager, INSERT, NEW_EVENTS.params(values));
  }
}

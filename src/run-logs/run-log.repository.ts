import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { AttemptEntity, EventEntity, RunEntity } from '../database/entities/run.entity.js';
import { RunLogEntity, RunLogRowEntity } from '../database/entities/run-log.entity.js';
import { sendLogPosition } from '../database/notices/commit-notice.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { inBatches } from '../database/sql/in-batches.js';
import { execute, rows, unnestRows } from '../database/sql/sql.js';
import type { LogChange, LogState } from './add-chunk.js';
import { LOG_LIMITS } from './log-limits.js';

/** Rows dropped by one statement at most. */
const DROP_BATCH = 500;

export interface LogId {
  readonly runId: string;
  readonly attempt: number;
}

/** An attempt and its log. */
export interface LogStatus {
  /** The current attempt of the run. */
  readonly currentAttempt: number;
  /** The attempt that was asked for; null if the run does not have it. */
  readonly attempt: number | null;
  /** The worker that has the attempt, or had it last. */
  readonly workerId: string | null;
  /** Null until the first chunk. */
  readonly log: {
    /** The worker that opened the log. */
    readonly workerId: string;
    readonly state: LogState;
  } | null;
  /** Nothing more is expected. */
  readonly isClosed: boolean;
  /** Null while the log is closed or grows. Else its worker: if that one is not active, nothing more is expected. */
  readonly silentWorker: string | null;
}

const RUNS = new EntityTable(RunEntity);
const ATTEMPTS = new EntityTable(AttemptEntity);
const EVENTS = new EntityTable(EventEntity);
const LOGS = new EntityTable(RunLogEntity);
const LOG_ROWS = new EntityTable(RunLogRowEntity);

const PROGRESS = LOGS.except('runId', 'attempt', 'isComplete', 'updatedAt', 'workerId');

type StatusRow = Pick<RunLogEntity, (typeof PROGRESS)[number] | 'isComplete'> &
  Omit<LogStatus, 'log'> & { readonly openedBy: string | null };

const STORED = LOG_ROWS.except('runId', 'attempt');
const STORED_COLUMNS = LOG_ROWS.columns(STORED);
/** Rows of a chunk, after the twelve other parameters of the statement that stores it. */
const NEW_ROWS = LOG_ROWS.unnest(STORED, { firstParam: 13 });

export type NewRow = Readonly<Record<Exclude<(typeof STORED)[number], 'lines'>, number>> & {
  readonly lines: Buffer;
};

/** Writes logs. It neither locks nor changes rows of other contexts. */
@Injectable()
export class RunLogRepository {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * The status of a log; null for an unknown run.
   * @param attempt null for the current one
   */
  async findStatus(runId: string, attempt: number | null): Promise<LogStatus | null> {
    const [row] = await rows<StatusRow>(
      this.dataSource,
      `select r.attempt as "currentAttempt",
              case when asked.attempt = r.attempt then r.attempt else a.attempt end as attempt,
              case when asked.attempt = r.attempt then r.worker_id else a.worker_id end as "workerId",
              ${isClosed('$4')} as "isClosed",
              case when not ${isClosed('$4')} and ${isSilent('$3')} then ${HOLDER} end as "silentWorker",
              l.worker_id as "openedBy",
              ${LOGS.select('l', PROGRESS)},
              coalesce(l.is_complete, false) as "isComplete"
         from ${RUNS.name} r
        cross join lateral (select coalesce($2::integer, r.attempt) as attempt) asked
         left join ${ATTEMPTS.name} a on a.run_id = r.id and a.attempt = asked.attempt
         left join ${LOGS.name} l on l.run_id = r.id and l.attempt = asked.attempt
        where r.id = $1::uuid`,
      [runId, attempt, LOG_LIMITS.silenceMs, LOG_LIMITS.activeSilenceMs],
    );
    if (row === undefined) return null;
    const { openedBy } = row;
    return { ...row, log: openedBy === null ? null : { workerId: openedBy, state: toState(row) } };
  }

  /** Those of the logs that are closed, whose run is removed, or to which only `silentWorker` could add lines. */
  async listSilent(logs: readonly LogId[]): Promise<(LogId & Pick<LogStatus, 'silentWorker'>)[]> {
    const source = unnestRows(
      { run_id: 'uuid', attempt: 'integer' },
      logs.map(({ runId, attempt }) => ({ run_id: runId, attempt })),
      3,
    );
    return rows(
      this.dataSource,
      `select asked.run_id as "runId", asked.attempt,
              case when r.id is not null and not ${isClosed('$2')} then ${HOLDER} end as "silentWorker"
         from (select v.run_id, v.attempt from ${source.sql}) asked
         left join ${RUNS.name} r on r.id = asked.run_id
         left join ${ATTEMPTS.name} a on a.run_id = asked.run_id and a.attempt = asked.attempt
         left join ${LOGS.name} l on l.run_id = asked.run_id and l.attempt = asked.attempt
        where r.id is null
           or ${isClosed('$2')}
           or ${isSilent('$1')}`,
      [LOG_LIMITS.silenceMs, LOG_LIMITS.activeSilenceMs, ...source.params],
    );
  }

  /** Opens the log of an attempt, unless it is open or the run is removed. */
  async open({ runId, attempt }: LogId, workerId: string): Promise<void> {
    await execute(
      this.dataSource,
      `insert into ${LOGS.name} (
         run_id, attempt, next_chunk, next_line, printed_bytes, unknown_gaps, weight, is_complete, updated_at, worker_id
       )
       select id, $2::integer, 0, 0, 0, 0, 0, false, clock_timestamp(), $3::text
         from ${RUNS.name}
        where id = $1::uuid
           on conflict (run_id, attempt) do nothing`,
      [runId, attempt, workerId],
    );
  }

  /** Stores a chunk, drops rows above the limit and notifies readers. False if the log has changed or is removed. */
  async append(
    { runId, attempt }: LogId,
    { state, dropBelow }: LogChange,
    newRows: readonly NewRow[],
  ): Promise<boolean> {
    const [moved] = await rows<{ dropped: string }>(
      this.dataSource,
      `with moved as (
         update ${LOGS.name}
            set next_chunk = $3::integer,
                next_line = $4::bigint,
                printed_bytes = $5::bigint,
                unknown_gaps = $6::bigint,
                weight = $7::bigint,
                tail_line = $8::bigint,
                tail_weight = $9::bigint,
                is_complete = $10::boolean,
                cursor = $12::text,
                updated_at = clock_timestamp()
          where run_id = $1::uuid
            and attempt = $2::integer
            and next_chunk = $3::integer - 1
            and not is_complete
      returning run_id, attempt
       ),
       stored as (
         insert into ${LOG_ROWS.name} (run_id, attempt, ${STORED_COLUMNS})
         select m.run_id, m.attempt, ${LOG_ROWS.columns(STORED, 'v')}
           from moved m
          cross join ${NEW_ROWS.sql}
       ),
       dropped as (
         delete from ${LOG_ROWS.name} r
          using moved m
          where r.run_id = m.run_id
            and r.attempt = m.attempt
            and r.first_line in (${oldestOfTail('$8', '$11')})
      returning r.first_line
       )
       select (select count(*) from dropped) as dropped,
              ${sendLogPosition("run_id || ' ' || attempt", '$3::integer')}
         from moved`,
      [
        runId,
        attempt,
        state.nextChunk,
        state.end.line,
        state.end.bytes,
        state.end.unknownGaps,
        state.weight,
        state.tail?.line ?? null,
        state.tail?.weight ?? null,
        state.isComplete,
        dropBelow,
        state.cursor,
        ...NEW_ROWS.params(newRows),
      ],
    );
    if (moved === undefined) return false;
    if (Number(moved.dropped) === DROP_BATCH) {
      await inBatches(DROP_BATCH, undefined, () =>
        execute(
          this.dataSource,
          `delete from ${LOG_ROWS.name}
            where run_id = $1::uuid
              and attempt = $2::integer
              and first_line in (${oldestOfTail('$3', '$4')})`,
          [runId, attempt, state.tail?.line, dropBelow],
        ),
      );
    }
    return true;
  }
}

// Expressions on `runs r`, `attempts a` and `run_logs l` of one attempt. The current attempt has no row in `attempts`.
const ENDED = `case when a.attempt is null then r.finished_at else a.finished_at end`;
/** A worker that was cut off reports an end long after it, and its log still later. */
const REPORTED = `greatest(${ENDED}, (
                 select e.t
                   from ${EVENTS.name} e
                  where e.run_id = r.id
                    and e.index = coalesce(a.end_event, r.event_count) - 1
               ))`;
const HOLDER = `coalesce(l.worker_id, case when a.attempt is null then r.worker_id else a.worker_id end)`;

function isClosed(silence: string): string {
  return `(coalesce(l.is_complete, false) or (${ENDED} is not null and (${HOLDER} is null or ${isSilent(silence)})))`;
}

function isSilent(silence: string): string {
  return `(greatest(${REPORTED}, l.updated_at) < now() - ${silence}::double precision * interval '1 millisecond'
               and ${ENDED} is not null)`;
}

/** Query of the first lines of rows to drop, oldest first; none while there is no tail. */
function oldestOfTail(tailLine: string, dropBelow: string): string {
  return `select o.first_line
                from (
                  select first_line, weight_before
                    from ${LOG_ROWS.name}
                   where run_id = $1::uuid
                     and attempt = $2::integer
                     and first_line >= ${tailLine}::bigint
                   order by first_line
                   limit ${DROP_BATCH}
                ) o
               where o.weight_before < ${dropBelow}::bigint`;
}

function toState(row: StatusRow): LogState {
  const { tailLine, tailWeight } = row;
  return {
    nextChunk: row.nextChunk,
    end: {
      line: Number(row.nextLine),
      bytes: Number(row.printedBytes),
      unknownGaps: Number(row.unknownGaps),
    },
    weight: Number(row.weight),
    tail:
      tailLine === null || tailWeight === null
        ? null
        : { line: Number(tailLine), weight: Number(tailWeight) },
    isComplete: row.isComplete,
    cursor: row.cursor,
  };
}

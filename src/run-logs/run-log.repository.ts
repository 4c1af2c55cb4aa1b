import { Injectable } from '@nestjs/common';
import { AttemptEntity } from '../database/entities/attempt.entity.js';
import { RunLogEntity, RunLogRowEntity } from '../database/entities/run-log.entity.js';
import { RunEntity } from '../database/entities/run.entity.js';
import { EntityTable } from '../database/entity-table.js';
import { inBatches } from '../database/in-batches.js';
import { execute, rows, unnestRows, type SqlExecutor } from '../database/sql.js';
import type { LogChange, LogRow, LogState } from './log-plan.js';

/** Channel on which chunks are announced, as `<next chunk> <run id> <attempt>`. */
export const LOG_CHANNEL = 'longshore_log';

/** Rows dropped by one statement at most. */
const DROPPED_AT_ONCE = 500;

/** Which log. */
export interface LogId {
  readonly runId: string;
  readonly attempt: number;
}

/** A log together with the attempt that it is of. */
export interface LogStanding {
  /** The current attempt of the run. */
  readonly currentAttempt: number;
  /** The attempt that was asked for; null when the run does not have it. */
  readonly attempt: number | null;
  /** Who has the attempt, or had it last. */
  readonly holder: string | null;
  readonly log: StoredLog | null;
  /** Nothing is going to be added, as far as can be known. */
  readonly isClosed: boolean;
}

/** A log that was begun. */
export interface StoredLog {
  /** Who began it. */
  readonly workerId: string;
  readonly state: LogState;
}

/** A row with its lines packed. */
export interface PackedRow extends Omit<LogRow, 'lines'> {
  readonly lineCount: number;
  readonly lines: Buffer;
}

const RUNS = new EntityTable(RunEntity);
const ATTEMPTS = new EntityTable(AttemptEntity);
const LOGS = new EntityTable(RunLogEntity);
const LOG_ROWS = new EntityTable(RunLogRowEntity);

const PROGRESS = LOGS.except('runId', 'attempt', 'isComplete', 'updatedAt', 'workerId');

type StandingRow = Readonly<
  Pick<RunLogEntity, (typeof PROGRESS)[number] | 'isComplete'> &
    Omit<LogStanding, 'log'> & { workerId: string | null }
>;

const STORED = LOG_ROWS.except('runId', 'attempt');
const STORED_COLUMNS = LOG_ROWS.columns(STORED);
/** Rows of a chunk, behind the eleven parameters of the statement that stores it. */
const NEW_ROWS = LOG_ROWS.unnest(STORED, { firstParam: 12 });

/** SQL by which logs are written. None of it locks or changes a row of another context's tables. */
@Injectable()
export class RunLogRepository {
  /**
   * How a log stands; null for an unknown run.
   * @param attempt null for the current one
   * @param silenceMs after the end of the attempt and the last chunk, when no more is expected
   */
  async findStanding(
    executor: SqlExecutor,
    runId: string,
    attempt: number | null,
    silenceMs: number,
  ): Promise<LogStanding | null> {
    const [row] = await rows<StandingRow>(
      executor,
      `select r.attempt as "currentAttempt",
              case when asked.attempt = r.attempt then r.attempt else a.attempt end as attempt,
              case when asked.attempt = r.attempt then r.worker_id else a.worker_id end as holder,
              ${isClosed('$3')} as "isClosed",
              l.worker_id as "workerId",
              ${LOGS.select('l', PROGRESS)},
              coalesce(l.is_complete, false) as "isComplete"
         from ${RUNS.name} r
        cross join lateral (select coalesce($2::integer, r.attempt) as attempt) asked
         left join ${ATTEMPTS.name} a on a.run_id = r.id and a.attempt = asked.attempt
         left join ${LOGS.name} l on l.run_id = r.id and l.attempt = asked.attempt
        where r.id = $1::uuid`,
      [runId, attempt, silenceMs],
    );
    return row === undefined ? null : toStanding(row);
  }

  /** Those of the logs that nothing is going to be added to, and those whose run is gone. */
  async listClosed(executor: SqlExecutor, logs: readonly LogId[], silenceMs: number): Promise<LogId[]> {
    const source = unnestRows(
      { run_id: 'uuid', attempt: 'integer' },
      logs.map(({ runId, attempt }) => ({ run_id: runId, attempt })),
      2,
    );
    return rows(
      executor,
      `select asked.run_id as "runId", asked.attempt
         from (select v.run_id, v.attempt from ${source.sql}) asked
         left join ${RUNS.name} r on r.id = asked.run_id
         left join ${ATTEMPTS.name} a on a.run_id = asked.run_id and a.attempt = asked.attempt
         left join ${LOGS.name} l on l.run_id = asked.run_id and l.attempt = asked.attempt
        where r.id is null
           or ${isClosed('$1')}`,
      [silenceMs, ...source.params],
    );
  }

  /** Begins the log of an attempt, unless it was begun already or the run is gone. */
  async open(executor: SqlExecutor, { runId, attempt }: LogId, workerId: string): Promise<void> {
    await execute(
      executor,
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

  /**
   * Stores the next chunk, drops what the limit has no room for, and has the commit announce it; all of that or nothing.
   * @param packed the rows of the change
   * @returns false when the log has gone on since its state was read, or is gone
   */
  async append(
    executor: SqlExecutor,
    { runId, attempt }: LogId,
    { state, dropBelow }: LogChange,
    packed: readonly PackedRow[],
  ): Promise<boolean> {
    const values = packed.map(({ start, lineCount, textBytes, weightBefore, lines }) => ({
      firstLine: start.line,
      lineCount,
      textBytes,
      bytesBefore: start.bytes,
      unknownGapsBefore: start.unknownGaps,
      weightBefore,
      lines,
    }));
    const [moved] = await rows<{ dropped: string }>(
      executor,
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
              pg_notify('${LOG_CHANNEL}', $3::integer || ' ' || run_id || ' ' || attempt)
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
        ...NEW_ROWS.params(values),
      ],
    );
    if (moved === undefined) return false;
    if (Number(moved.dropped) === DROPPED_AT_ONCE && state.tail !== null && dropBelow !== null) {
      const { line } = state.tail;
      await inBatches(DROPPED_AT_ONCE, undefined, () =>
        this.#dropMore(executor, { runId, attempt }, line, dropBelow),
      );
    }
    return true;
  }

  #dropMore(
    executor: SqlExecutor,
    { runId, attempt }: LogId,
    tailLine: number,
    dropBelow: number,
  ): Promise<number> {
    return execute(
      executor,
      `delete from ${LOG_ROWS.name}
        where run_id = $1::uuid
          and attempt = $2::integer
          and first_line in (${oldestOfTail('$3', '$4')})`,
      [runId, attempt, tailLine, dropBelow],
    );
  }
}

/** Condition on `runs r`, `attempts a` and `run_logs l` of one attempt; a run's current attempt is not in `attempts`. */
function isClosed(silence: string): string {
  const ended = `case when a.attempt is null then r.finished_at else a.finished_at end`;
  const holder = `coalesce(l.worker_id, case when a.attempt is null then r.worker_id else a.worker_id end)`;
  return `(coalesce(l.is_complete, false)
               or (${ended} is not null
                   and (${holder} is null
                        or greatest(${ended}, l.updated_at) < now() - ${silence}::double precision * interval '1 millisecond')))`;
}

/** Query of the first lines of rows that are to be dropped, oldest first; nothing while there is no tail. */
function oldestOfTail(tailLine: string, dropBelow: string): string {
  return `select o.first_line
                from (
                  select first_line, weight_before
                    from ${LOG_ROWS.name}
                   where run_id = $1::uuid
                     and attempt = $2::integer
                     and first_line >= ${tailLine}::bigint
                   order by first_line
                   limit ${DROPPED_AT_ONCE}
                ) o
               where o.weight_before < ${dropBelow}::bigint`;
}

function toStanding(row: StandingRow): LogStanding {
  const { currentAttempt, attempt, holder, isClosed: closed, workerId } = row;
  return {
    currentAttempt,
    attempt,
    holder,
    isClosed: closed,
    log: workerId === null ? null : { workerId, state: toState(row) },
  };
}

function toState(row: StandingRow): LogState {
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
  };
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, rows, type SqlExecutor } from '../../database/sql.js';
import type { RunState } from '../machine/run-state.js';
import type { StateCountDelta } from './state-count-delta.js';

/** Columns of the number of runs in each state. */
const STATE_COLUMNS = ['pending', 'assigned', 'running', 'cancelled', 'completed', 'failed'] as const;

/** Columns of how often runs were created and came to their ends. */
const HAPPENED = ['created', 'ended_cancelled', 'ended_completed', 'ended_failed'] as const;

const COUNTS = [...HAPPENED, ...STATE_COLUMNS];

const ADD_EXCLUDED = COUNTS.map((column) => `${column} = c.${column} + excluded.${column}`).join(
  ',\n              ',
);

/** What happened in one minute. */
export interface RunMinute {
  /** Its beginning. */
  readonly minute: Date;
  readonly created: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
}

/** How many runs there are, and what happened lately. */
export interface RunCounts {
  /** The database's time. */
  readonly at: Date;
  readonly states: Readonly<Record<RunState, number>>;
  /** Oldest first, the one that is under way last; one that nothing happened in is there as well. */
  readonly minutes: readonly RunMinute[];
}

type CountsRow = { readonly at: Date; readonly minute: Date } & Readonly<
  Record<(typeof STATE_COLUMNS | typeof HAPPENED)[number], string>
>;

/** SQL of the table `run_counts`. */
@Injectable()
export class RunCountsRepository {
  /**
   * Adds a tally to the counts, in the transaction that does what the tally tells of. The row is that of the second
   * and of the connection, so that transactions never wait for each other here.
   * @param at the transaction's time
   */
  async add(manager: EntityManager, { created, ended, deltas }: StateCountDelta, at: Date): Promise<void> {
    await execute(
      manager,
      `insert into run_counts as c (since, slot, ${COUNTS.join(', ')})
       values (
         date_trunc('second', $1::timestamptz), pg_backend_pid(),
         $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint,
         $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint
       )
           on conflict (since, slot) do update
          set ${ADD_EXCLUDED}`,
      [
        at.toISOString(),
        created,
        ended.CANCELLED,
        ended.COMPLETED,
        ended.FAILED,
        deltas.PENDING,
        deltas.ASSIGNED,
        deltas.RUNNING,
        deltas.CANCELLED,
        deltas.COMPLETED,
        deltas.FAILED,
      ],
    );
  }

  /** How many runs are in each state now, and what happened in the last `minutes` minutes, as one snapshot. */
  async read(executor: SqlExecutor, minutes: number): Promise<RunCounts> {
    const found = await rows<CountsRow>(
      executor,
      `with counts as materialized (
         select date_trunc('minute', since) as minute, ${COUNTS.map((column) => `sum(${column}) as ${column}`).join(', ')}
           from run_counts
          group by 1
       ),
       now as materialized (
         select ${STATE_COLUMNS.map((column) => `coalesce(sum(${column}), 0) as ${column}`).join(', ')}
           from counts
       ),
       asked as materialized (
         select date_trunc('milliseconds', statement_timestamp()) as at,
                date_trunc('minute', statement_timestamp()) - n * interval '1 minute' as minute
           from generate_series(0, $1::integer - 1) as n
       )
       select a.at, a.minute, ${STATE_COLUMNS.map((column) => `now.${column}`).join(', ')},
              coalesce(sum(c.created), 0) as created,
              coalesce(sum(c.ended_completed), 0) as ended_completed,
              coalesce(sum(c.ended_failed), 0) as ended_failed,
              coalesce(sum(c.ended_cancelled), 0) as ended_cancelled
         from asked a
        cross join now
         left join counts c on c.minute = a.minute
        group by a.at, a.minute, ${STATE_COLUMNS.map((column) => `now.${column}`).join(', ')}
        order by a.minute`,
      [minutes],
    );
    const [first] = found;
    if (first === undefined) throw new RangeError('counts are read for one minute at least');
    return {
      at: first.at,
      states: {
        PENDING: Number(first.pending),
        ASSIGNED: Number(first.assigned),
        RUNNING: Number(first.running),
        COMPLETED: Number(first.completed),
        FAILED: Number(first.failed),
        CANCELLED: Number(first.cancelled),
      },
      minutes: found.map((row) => ({
        minute: row.minute,
        created: Number(row.created),
        completed: Number(row.ended_completed),
        failed: Number(row.ended_failed),
        cancelled: Number(row.ended_cancelled),
      })),
    };
  }

  /**
   * Adds rows of seconds to those of their minutes, and rows of minutes to the one of all earlier ones, and removes them;
   * a bounded number. A transaction that is just writing to one of them is not waited for.
   * @param seconds those before this time are summed up
   * @param minutes so are those before this time; not later than `seconds`
   * @returns how many rows it removed
   */
  async rollUp(manager: EntityManager, seconds: Date, minutes: Date, limit: number): Promise<number> {
    const [row] = await rows<{ removed: string }>(
      manager,
      `with old as materialized (
         select since, slot
           from run_counts
          where since > '-infinity'
            and (since < $2::timestamptz or since < $1::timestamptz and slot <> 0)
          order by since, slot
          limit $3::integer
            for update skip locked
       ),
       removed as (
         delete from run_counts c
          using old
          where c.since = old.since
            and c.slot = old.slot
      returning case
                  when c.since < $2::timestamptz then '-infinity'
                  else date_trunc('minute', c.since)
                end as minute,
                ${COUNTS.map((column) => `c.${column}`).join(', ')}
       ),
       added as (
         insert into run_counts as c (since, slot, ${COUNTS.join(', ')})
         select minute, 0, ${COUNTS.map((column) => `sum(${column})`).join(', ')}
           from removed
          group by minute
             on conflict (since, slot) do update
            set ${ADD_EXCLUDED}
       )
       select count(*) as removed
         from removed`,
      [seconds.toISOString(), minutes.toISOString(), limit],
    );
    return Number(row?.removed ?? 0);
  }
}

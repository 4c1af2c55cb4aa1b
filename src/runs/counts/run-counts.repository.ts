import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor, type Statement } from '../../database/sql/sql.js';
import type { RunState } from '../machine/run-state.js';
import { COUNT_COLUMNS, type CountColumn, type StateCountDelta } from './state-count-delta.js';

const MINUTE_MS = 60_000;

/** The update of a row of `run_counts c` that exists already. */
export const ADD_EXCLUDED = COUNT_COLUMNS.map(
  (column) => `${column} = c.${column} + excluded.${column}`,
).join(', ');

const ADD = `insert into run_counts as c (since, slot, ${COUNT_COLUMNS.join(', ')})
       values (
         date_trunc('second', $1::timestamptz), pg_backend_pid(),
         ${COUNT_COLUMNS.map((_, i) => `$${i + 2}::bigint`).join(', ')}
       )
           on conflict (since, slot) do update
          set ${ADD_EXCLUDED}`;

export interface RunMinute {
  /** Its beginning. */
  readonly minute: Date;
  readonly created: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
}

/** How many runs there are, and what happened in the last minutes. */
export interface RunCounts {
  /** The database's time. */
  readonly at: Date;
  readonly states: Readonly<Record<RunState, number>>;
  /** Oldest first, the current one last; also those in which nothing happened. */
  readonly minutes: readonly RunMinute[];
}

/** Sums of one minute; `-Infinity`: of all earlier ones; null: there are no counts. */
type MinuteRow = { readonly at: Date; readonly minute: Date | number | null } & Readonly<
  Record<CountColumn, string | null>
>;

/**
 * The statement that adds to the counts, in the transaction that changes the runs. Each connection has its own row for each
 * second, so that transactions do not wait for each other.
 */
export function addRunCounts(delta: StateCountDelta, at: Date): Statement {
  return { sql: ADD, params: [at.toISOString(), ...COUNT_COLUMNS.map((column) => delta.get(column))] };
}

/** SQL of the table `run_counts`, and of the oldest pending run. */
@Injectable()
export class RunCountsRepository {
  /** How many runs are in each state now, and what happened in the last `minutes` minutes, as one snapshot. */
  async read(executor: SqlExecutor, minutes: number): Promise<RunCounts> {
    const found = await rows<MinuteRow>(
      executor,
      `select date_trunc('milliseconds', statement_timestamp()) as at, date_trunc('minute', c.since) as minute,
              ${COUNT_COLUMNS.map((column) => `sum(c.${column}) as ${column}`).join(', ')}
         from (select) as one
         left join run_counts c on true
        group by 2`,
    );
    const [first] = found;
    if (first === undefined) throw new Error('the database returned no counts');
    const sum = (column: CountColumn): number => found.reduce((total, row) => total + Number(row[column]), 0);
    const byMinute = new Map(found.map((row) => [Number(row.minute), row]));
    const current = Math.floor(first.at.getTime() / MINUTE_MS);
    return {
      at: first.at,
      states: {
        PENDING: sum('pending'),
        ASSIGNED: sum('assigned'),
        RUNNING: sum('running'),
        COMPLETED: sum('completed'),
        FAILED: sum('failed'),
        CANCELLED: sum('cancelled'),
      },
      minutes: Array.from({ length: minutes }, (_, i) => {
        const minute = (current - minutes + 1 + i) * MINUTE_MS;
        const row = byMinute.get(minute);
        return {
          minute: new Date(minute),
          created: Number(row?.created ?? 0),
          completed: Number(row?.ended_completed ?? 0),
          failed: Number(row?.ended_failed ?? 0),
          cancelled: Number(row?.ended_cancelled ?? 0),
        };
      }),
    };
  }

  /** When the oldest PENDING run was created, or null. Has the predicate of the index `runs_by_outcome`. */
  async findOldestPending(executor: SqlExecutor, pending: number): Promise<Date | null> {
    if (pending === 0) return null;
    const [row] = await rows<{ createdAt: Date }>(
      executor,
      `select created_at as "createdAt"
         from runs
        where outcome = 'OPEN'
          and state = 'PENDING'
          and max_attempts > 0
        order by created_at, id
        limit 1`,
    );
    return row?.createdAt ?? null;
  }
}

import { Injectable } from '@nestjs/common';
import { CHANNEL, sendNotice, textsOf, type CommitNotice } from '../../database/notices/commit-notice.js';
import { execute, rows, type SqlExecutor } from '../../database/sql/sql.js';
import { type RunState, isTerminal } from '../machine/run-state.js';

/** The column that counts the runs of a state, here and of groups. */
export const STATE_COLUMN = {
  PENDING: 'pending',
  ASSIGNED: 'assigned',
  RUNNING: 'running',
  CANCELLED: 'cancelled',
  COMPLETED: 'completed',
  FAILED: 'failed',
} as const satisfies Record<RunState, string>;

/** Columns of `run_counts` that count: creations, ends by state, and the change of each state's number of runs. */
export const COUNT_COLUMNS = [
  'created',
  'ended_cancelled',
  'ended_completed',
  'ended_failed',
  ...Object.values(STATE_COLUMN),
] as const;
export type CountColumn = (typeof COUNT_COLUMNS)[number];

/** What a commit adds to the counts of runs. */
export class StateCountDelta {
  readonly #counts = new Map<CountColumn, number>();

  create(runs: number): void {
    this.#add('created', runs);
    this.#add('pending', runs);
  }

  /** Counts runs that changed their state; from a state into itself is no change. */
  move(from: RunState, to: RunState, runs = 1): void {
    if (from === to) return;
    this.remove(from, runs);
    this.#add(STATE_COLUMN[to], runs);
    if (isTerminal(to)) this.#add(`ended_${STATE_COLUMN[to]}`, runs);
  }

  remove(state: RunState, runs: number): void {
    this.#add(STATE_COLUMN[state], -runs);
  }

  get(column: CountColumn): number {
    return this.#counts.get(column) ?? 0;
  }

  get isEmpty(): boolean {
    return [...this.#counts.values()].every((count) => count === 0);
  }

  #add(column: CountColumn, runs: number): void {
    this.#counts.set(column, this.get(column) + runs);
  }
}

const MINUTE_MS = 60_000;

/** The update of a row of `run_counts c` that exists already. */
export const ADD_EXCLUDED = `created = c.created + excluded.created, ended_cancelled = c.ended_cancelled + excluded.ended_cancelled,
              ended_completed = c.ended_completed + excluded.ended_completed, ended_failed = c.ended_failed + excluded.ended_failed,
              pending = c.pending + excluded.pending, assigned = c.assigned + excluded.assigned, running = c.running + excluded.running,
              cancelled = c.cancelled + excluded.cancelled, completed = c.completed + excluded.completed, failed = c.failed + excluded.failed`;

// The counts are in the order of COUNT_COLUMNS.
const ADD = `insert into run_counts as c (
         since, slot, created, ended_cancelled, ended_completed, ended_failed, pending, assigned, running, cancelled, completed, failed
       )
       values (
         date_trunc('second', $1::timestamptz), pg_backend_pid(), $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint,
         $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint
       )
           on conflict (since, slot) do update
          set ${ADD_EXCLUDED}`;
const ANNOUNCE = `with counted as (
         ${ADD}
       )
       select pg_notify('${CHANNEL}', text)
         from unnest($12::text[]) as text`;

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
 * Adds to the counts, in the transaction that changes the runs. Each connection has its own row for each second, so that transactions
 * do not wait for each other.
 */
export async function addRunCounts(executor: SqlExecutor, delta: StateCountDelta, at: Date): Promise<void> {
  if (!delta.isEmpty) await execute(executor, ADD, countsOf(delta, at));
}

/** Announces the commit of a transaction: adds to the counts as {@link addRunCounts} and sends the notice, in one statement. */
export async function announceCommit(
  executor: SqlExecutor,
  delta: StateCountDelta,
  at: Date,
  notice: CommitNotice,
): Promise<void> {
  if (delta.isEmpty) return sendNotice(executor, notice);
  await execute(executor, ANNOUNCE, [...countsOf(delta, at), textsOf(notice)]);
}

function countsOf(delta: StateCountDelta, at: Date): unknown[] {
  return [at.toISOString(), ...COUNT_COLUMNS.map((column) => delta.get(column))];
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

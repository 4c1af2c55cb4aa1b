import { Injectable } from '@nestjs/common';
import { AttemptEntity, EventEntity } from '../../database/entities/run.entity.js';
import { RunLogEntity } from '../../database/entities/run-log.entity.js';
import { ConcurrencySlotEntity } from '../../database/entities/queue.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows, UnnestColumns, type SqlExecutor } from '../../database/sql/sql.js';
import { readGpuIds } from '../machine/run.js';
import type { RunState } from '../machine/run-state.js';
import { EXECUTIONS, REQUIRING_COLUMNS, RUNS } from './run-columns.js';
import type { RequiringRun } from '../requirements.js';
import type { HeldRun } from '../scheduling-strategy.js';

export interface AssignedWorker {
  readonly workerId: string;
  /** True when it has held one of them for longer than the given time. */
  readonly isOverdue: boolean;
}

/** Some of the workers that hold runs, in the database's order. */
export interface AssignedWorkerPage {
  readonly workers: readonly AssignedWorker[];
  /** The database's time. */
  readonly now: Date;
}

/** The attempt of a run that a worker holds. */
export interface AssignedRun {
  readonly id: string;
  readonly workerId: string;
  readonly attempt: number;
}

/** An attempt that a worker holds, and how far its log is stored. */
export interface HeldAttempt extends Omit<AssignedRun, 'workerId'> {
  /** Null: nothing of it is stored. */
  readonly log: {
    readonly nextChunk: number;
    readonly nextLine: number;
    readonly cursor: string | null;
  } | null;
}

/** Selects runs by their workers, `first` to `last` in the database's order, and by the time of their assignment. */
export interface AssignedRunQuery {
  readonly first: string;
  readonly last: string;
  /** Workers whose runs must have been assigned before `silentBefore`; those of all others before `heldBefore`. */
  readonly silent: readonly string[];
  readonly silentBefore: Date;
  readonly heldBefore: Date;
  /** The last run of the page before. */
  readonly after?: AssignedRun | undefined;
  readonly limit: number;
}

/** A run that a worker reports to execute. */
export interface ReportedRun {
  readonly id: string;
  readonly workerId: string;
  /** Null: unknown. */
  readonly attempt: number | null;
  /** Id of an API key that may read only the runs that the worker holds or held; null: it may read every run. */
  readonly boundKey: string | null;
}

/** A run that is not assigned, or not at this attempt, to the worker that reports it. */
export interface LostRun {
  readonly id: string;
  readonly state: RunState;
  /** The current one. */
  readonly attempt: number;
  readonly workerId: string | null;
}

/** The workers that have to do with a run. */
export interface RunHolders extends RequiringRun {
  readonly workerIds: readonly string[];
  readonly isSender: boolean;
}

/** A run in execution that has a concurrency key. */
export interface KeyHolder {
  readonly id: string;
  readonly state: RunState;
  /** Null for a run whose state an admin set. */
  readonly workerId: string | null;
}

/** How many events after the first of an attempt are searched: its STARTED is among them. */
const FIRST_EVENTS = 20;

const ATTEMPTS = new EntityTable(AttemptEntity);
const EVENTS = new EntityTable(EventEntity);

const LEAST_UUID = '00000000-0000-0000-0000-000000000000';

/** Workers that hold or held a run; an element may be null. */
const HOLDERS = `array(select a.worker_id from ${ATTEMPTS.name} a where a.run_id = r.id) || r.worker_id`;

/** Whether an API key sent one of the first events of a run's current attempt. */
const isSenderSql = (key: string): string => `exists (
                select
                  from ${EVENTS.name} e
                 where e.run_id = r.id
                   and e.index between r.first_event and r.first_event + ${FIRST_EVENTS}
                   and e.sender = ${key}
              )`;

const REPORTED = new UnnestColumns<'at' | keyof ReportedRun>([
  { key: 'at', name: 'at', type: 'integer' },
  { key: 'id', name: 'id', type: 'uuid' },
  { key: 'workerId', name: 'worker_id', type: 'text' },
  { key: 'attempt', name: 'attempt', type: 'integer' },
  { key: 'boundKey', name: 'bound_key', type: 'uuid' },
]);

const FIND_LOST = `select v.at, ${RUNS.select('r', ['id', 'state', 'attempt', 'workerId'])}
         from ${REPORTED.sql}
         join ${RUNS.name} r
           on r.id = v.id
        where (r.state not in ('ASSIGNED', 'RUNNING') or r.worker_id is distinct from v.worker_id or r.attempt <> v.attempt)
          and (v.bound_key is null or v.worker_id = any(${HOLDERS}) or ${isSenderSql('v.bound_key')})`;

/** Runs that a heartbeat may name. */
const MOST_HELD = 1000;

const LOGS = new EntityTable(RunLogEntity);
const SLOTS = new EntityTable(ConcurrencySlotEntity);
const HELD = ['runId', 'workerId', 'ramMb', 'vramMb', 'gpus'] as const;

/** SQL that reads the table `executions`, by worker and by key, and locks nothing. */
@Injectable()
export class HeldRunRepository {
  /**
   * The runs in execution on these workers, or on all, by worker id, and the ended ones whose programs may still be executed;
   * workers without any are left out.
   */
  async findHeld(
    executor: SqlExecutor,
    workerIds: readonly string[] | 'all',
  ): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    const byWorker = new Map<string, HeldRun[]>();
    if (workerIds.length === 0) return byWorker;
    const which = (table: string): string =>
      workerIds === 'all' ? `${table}.worker_id <> ''` : `${table}.worker_id = any($1::text[])`;
    const held = await rows<Omit<HeldRun, 'gpuIds'> & { readonly gpuIds: string | null }>(
      executor,
      `select ${EXECUTIONS.select('e', HELD)}, e.cpu_millis::float8 as "cpuMillis",
              coalesce(e.gpu_ids, e.gpu_id::text) as "gpuIds", false as "isEnding"
         from ${EXECUTIONS.name} e
        where ${which('e')}
        union all
       select ${SLOTS.select('s', HELD)}, s.cpu_millis::float8, s.gpu_ids, true
         from ${SLOTS.name} s
        where ${which('s')}`,
      workerIds === 'all' ? [] : [workerIds],
    );
    for (const { gpuIds, ...rest } of held) {
      const run = { ...rest, gpuIds: gpuIds === null ? [] : readGpuIds(gpuIds) };
      const others = byWorker.get(run.workerId);
      if (others) others.push(run);
      else byWorker.set(run.workerId, [run]);
    }
    return byWorker;
  }

  /** The attempts that a worker holds, the first thousand by the ids of their runs. */
  async listHeld(executor: SqlExecutor, workerId: string): Promise<HeldAttempt[]> {
    const held = await rows<
      Omit<HeldAttempt, 'log'> & Record<'nextLine' | 'nextChunk' | 'cursor', string | null>
    >(
      executor,
      `select e.run_id as id, e.attempt, l.next_chunk as "nextChunk", l.next_line as "nextLine", l.cursor
         from ${EXECUTIONS.name} e
         left join ${LOGS.name} l on l.run_id = e.run_id and l.attempt = e.attempt
        where e.worker_id = $1::text
        order by e.run_id
        limit ${MOST_HELD}`,
      [workerId],
    );
    return held.map(({ id, attempt, nextChunk, nextLine, cursor }) => ({
      id,
      attempt,
      log: nextChunk === null ? null : { nextChunk: Number(nextChunk), nextLine: Number(nextLine), cursor },
    }));
  }

  /** How many containers count for the concurrency key, and the runs and workers of the first of them by the run's id. */
  async findKeyHolders(
    executor: SqlExecutor,
    key: string,
    limit: number,
  ): Promise<{ readonly count: number; readonly holders: readonly KeyHolder[] }> {
    const holders = await rows<KeyHolder & { readonly count: number }>(
      executor,
      `select ${RUNS.select('r', ['id', 'state'])}, held.worker_id as "workerId", count(*) over ()::integer as count
         from (
           select run_id as id, nullif(worker_id, '') as worker_id
             from ${EXECUTIONS.name}
            where concurrency_key = $1::text
            union
           select run_id, worker_id
             from ${SLOTS.name}
            where key = $1::text
         ) held
         join ${RUNS.name} r on r.id = held.id
        order by r.id, held.worker_id
        limit $2::integer`,
      [key, limit],
    );
    return { count: holders[0]?.count ?? 0, holders };
  }

  /**
   * The workers that hold or held a run, and whether the API key sent one of the first events of its current attempt: an
   * admin's change of the state leaves no other trace of the worker. Null for an unknown run.
   */
  async findHolders(executor: SqlExecutor, runId: string, sender: string): Promise<RunHolders | null> {
    const [found] = await rows<RunHolders>(
      executor,
      `select array_remove(${HOLDERS}, null) as "workerIds",
              ${isSenderSql('$2::uuid')} as "isSender",
              ${REQUIRING_COLUMNS}
         from ${RUNS.name} r
        where r.id = $1::uuid`,
      [runId, sender],
    );
    return found ?? null;
  }

  /**
   * Those of each list of reported runs that are lost, by list. Unknown runs are left out.
   * @param reports their ids must be UUIDs
   */
  async findLost(
    executor: SqlExecutor,
    reports: readonly (readonly ReportedRun[])[],
  ): Promise<ReadonlyMap<readonly ReportedRun[], readonly LostRun[]>> {
    const reported = reports.flatMap((runs, at) => runs.map((run) => ({ ...run, at })));
    const lost: LostRun[][] = reports.map(() => []);
    for (const { at, ...run } of await rows<LostRun & { readonly at: number }>(
      executor,
      FIND_LOST,
      REPORTED.params(reported),
    )) {
      lost[at]?.push(run);
    }
    return new Map(reports.map((runs, at) => [runs, lost[at] ?? []]));
  }

  /** Workers after `after` that hold runs, at the cost of an index step per worker. @param overdueMs in milliseconds */
  async listAssignedWorkers(
    executor: SqlExecutor,
    after: string,
    overdueMs: number,
    limit: number,
  ): Promise<AssignedWorkerPage> {
    const found = await rows<
      Omit<AssignedWorkerPage, 'workers'> & { workerId: string | null; isOverdue: boolean }
    >(
      executor,
      `with recursive workers (worker_id, n) as (
         (select e.worker_id, 1
            from ${EXECUTIONS.name} e
           where e.worker_id > $1::text
           order by e.worker_id
           limit 1)
         union all
         select (select e.worker_id
                   from ${EXECUTIONS.name} e
                  where e.worker_id > h.worker_id
                  order by e.worker_id
                  limit 1),
                h.n + 1
           from workers h
          where h.worker_id is not null
            and h.n < $3::integer
       ),
       present as materialized (
         select date_trunc('milliseconds', clock_timestamp()) as now
       )
       select h.worker_id as "workerId",
              exists (
                select
                  from ${EXECUTIONS.name} e
                 where e.worker_id = h.worker_id
                   and e.assigned_at < p.now - make_interval(secs => $2::double precision / 1000)
              ) as "isOverdue",
              p.now
         from present p
         left join workers h on h.worker_id is not null
        order by h.n`,
      [after, overdueMs, limit],
    );
    const [first] = found;
    if (!first) throw new Error('the database did not tell the time');
    const workers = found.flatMap(({ workerId, isOverdue }) =>
      workerId === null ? [] : [{ workerId, isOverdue }],
    );
    return { workers, now: first.now };
  }

  /** The runs that the query describes, by worker and id. */
  listAssignedRuns(executor: SqlExecutor, query: AssignedRunQuery): Promise<AssignedRun[]> {
    return rows<AssignedRun>(
      executor,
      `select e.run_id as id, ${EXECUTIONS.select('e', ['workerId', 'attempt'])}
         from ${EXECUTIONS.name} e
        where e.worker_id <= $2::text
          and (e.worker_id, e.run_id) > ($1::text, $3::uuid)
          and e.assigned_at < case when e.worker_id = any($4::text[]) then $5::timestamptz else $6::timestamptz end
        order by e.worker_id, e.run_id
        limit $7::integer`,
      [
        query.after?.workerId ?? query.first,
        query.last,
        query.after?.id ?? LEAST_UUID,
        query.silent,
        query.silentBefore.toISOString(),
        query.heldBefore.toISOString(),
        query.limit,
      ],
    );
  }
}

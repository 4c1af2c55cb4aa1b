import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { RunEntity, RunRequestCopy } from '../../database/entities/run.entity.js';
import type { Field } from '../../database/sql/entity-table.js';
import { execute, rows, plainArray } from '../../database/sql/sql.js';
import {
  INITIAL_VALUES,
  NO_OPTIONS,
  type ChangingField,
  type CreatedRun,
  type FoundRun,
  type Run,
  type RunRecord,
} from '../machine/run.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../machine/new-id.js';
import {
  CLAIM_BYTES,
  cpuMillisColumn,
  EXECUTIONS,
  FOUND_COLUMNS,
  gpusColumn,
  jsonBytes,
  MACHINE_COLUMNS,
  OUTPUTS,
  QUEUE,
  RECORD_COLUMNS,
  RUN_BYTES,
  RUNS,
  WRITTEN_BY,
} from './run-columns.js';
import { updateOf } from './run-updates.js';

/** Fields that a claim returns besides those of `Run`. */
const SHORT_FIELDS = ['image', 'name', 'traceparent', 'tracestate'] as const;
/** Those whose sizes requests choose. */
const LARGE_FIELDS = ['inputs', 'labels', 'options'] as const;
const CLAIMED_FIELDS = [...SHORT_FIELDS, ...LARGE_FIELDS] as const;
export type ClaimedFields = Pick<RunRecord, (typeof CLAIMED_FIELDS)[number]>;

/** A run that a claim got and that its worker still holds. */
export type HeldByClaim = Run &
  ClaimedFields & {
    /** False: inputs and options are not read, and null, because those of the claims before come to too many bytes. */
    readonly isRead: boolean;
  };

/** A run as it is stored. */
export type VersionedRun = RunRecord & {
  /** Id of the transaction that wrote it last. */
  readonly writtenBy: string;
};

/** Runs as they were read, by id. */
type RunsAsRead = ReadonlyMap<string, Pick<VersionedRun, 'writtenBy'>>;

// A new run is sent without the columns that have the same value in every new run.
const CONSTANT = RUNS.fields.filter((field): field is keyof typeof INITIAL_VALUES => field in INITIAL_VALUES);
const GIVEN = RUNS.except(...CONSTANT, 'outcome', 'endedWorker', 'queuedAt', 'updatedAt', 'size');
const OPTIONS = RUNS.fields.filter((field): field is keyof typeof NO_OPTIONS => field in NO_OPTIONS);
const PLAIN_RUNS = insertOf(
  RUNS.except(
    ...CONSTANT,
    ...OPTIONS,
    'outcome',
    'endedWorker',
    'notBefore',
    'queuedAt',
    'updatedAt',
    'size',
  ),
  ['inputs', 'outputsTemplate', 'attributes'],
);
const ALL_RUNS = insertOf(GIVEN, [
  'inputs',
  'outputsTemplate',
  'attributes',
  'labels',
  'options',
  'selector',
]);
const QUEUED_FIELDS = ['priority', 'createdAt', 'ramMb', 'vramMb'] as const;
/** Runs without options are claimable at once, by every worker. */
const QUEUED_RUNS = `with created as (
         ${PLAIN_RUNS.sql}
      returning id, cpu, ${RUNS.columns(QUEUED_FIELDS)}
       )
       insert into ${QUEUE.name} (run_id, cpu_millis, ${QUEUE.columns(QUEUED_FIELDS)})
       select id, cpu * 1000::bigint, ${RUNS.columns(QUEUED_FIELDS)}
         from created`;

function insertOf(
  given: (typeof GIVEN)[number][],
  json: readonly Field<RunEntity>[],
): { readonly source: ReturnType<typeof RUNS.unnest<(typeof GIVEN)[number]>>; readonly sql: string } {
  const source = RUNS.unnest(given);
  const sql = `insert into ${RUNS.name} (${RUNS.columns([...given, ...CONSTANT, 'queuedAt', 'updatedAt', 'size'])})
       select ${RUNS.columns(given, 'v')}, ${CONSTANT.map((field) => literal(INITIAL_VALUES[field])).join(', ')},
              v.created_at, v.created_at, ${jsonBytes('v', json)}
         from ${source.sql}`;
  return { source, sql };
}

const LABELLED_RUNS = RUNS.unnest(['id', 'name', 'labels']);
const LABEL = `update ${RUNS.name} r
          set name = v.name,
              labels = v.labels,
              size = r.size + ${jsonBytes('v', ['labels'])} - ${jsonBytes('r', ['labels'])}
         from ${LABELLED_RUNS.sql}
        where r.id = v.id`;

const LABELS = {
  labels: ({ labels }: Run) => labels ?? null,
  name: ({ name }: Run) => name ?? null,
};

/** Columns that an assignment changes. */
const ASSIGNMENT = ['state', 'workerId', 'gpuId', 'gpuIds', 'assignedAt', 'updatedAt'] as const;
const ASSIGNED_RUNS = RUNS.unnest(['id', ...ASSIGNMENT], { extra: { written_by: 'xid' } });
const ASSIGN = `with v as materialized (
         select *
           from ${ASSIGNED_RUNS.sql}
       ),
       assigned as (
         update ${RUNS.name} r
            set ${RUNS.set(ASSIGNMENT, 'v')}
           from v
          where r.id = v.id
            and r.xmin = v.written_by
      returning r.*
       ),
       removed as (
         delete from ${QUEUE.name}
          where run_id = any($1::uuid[])
       ),
       begun as (
         insert into ${EXECUTIONS.name} (${EXECUTIONS.columns()})
         select ${executionOf('a')}
           from assigned a
       )
       select ${RUNS.select('a', ['id', ...CLAIMED_FIELDS])}
         from require_all_written((select count(*) from assigned), (select count(*) from v))
         left join assigned a on true`;
const BEGIN_EXECUTIONS = `insert into ${EXECUTIONS.name} (${EXECUTIONS.columns()})
       select ${executionOf('r')}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])`;

/** Runs that enter or leave execution; one whose worker, GPU or attempt changes does both. */
export interface ExecutionChange {
  /** By the id of the run, the worker that held it; empty for one whose state an admin set. */
  readonly ended: ReadonlyMap<string, string>;
  readonly begun: readonly string[];
}

/** SQL of the tables `runs` and `executions`. */
@Injectable()
export class RunRepository {
  /** The run with its current attempt. @throws RunNotFound */
  async get(manager: EntityManager, id: string): Promise<VersionedRun> {
    const [run] = isRunId(id)
      ? await rows<VersionedRun>(
          manager,
          `select ${RECORD_COLUMNS}, ${WRITTEN_BY}
             from ${RUNS.name} r
            where r.id = $1::uuid`,
          [id],
        )
      : [];
    if (!run) throw new RunNotFound(id);
    return run;
  }

  /** What {@link get} leaves out, of the run. */
  async findRequest(manager: EntityManager, id: string): Promise<RunRequestCopy | null> {
    const [row] = await rows<{ readonly request: RunRequestCopy | null }>(
      manager,
      `select request
         from ${RUNS.name}
        where id = $1::uuid`,
      [id],
    );
    return row?.request ?? null;
  }

  /**
   * The first of the runs with these ids, as many as come to `maxBytes`; one is read whatever its size. Unknown ids are
   * left out.
   */
  findFirst(manager: EntityManager, ids: readonly string[], maxBytes: number): Promise<RunRecord[]> {
    return rows(
      manager,
      `select ${RECORD_COLUMNS}
         from (
           select r.*, sum(${RUN_BYTES}) over walk as bytes_so_far, row_number() over walk as nth
             from ${RUNS.name} r
            where r.id = any($1::uuid[])
           window walk as (order by r.id rows unbounded preceding)
         ) r
        where r.bytes_so_far <= $2::bigint or r.nth = 1`,
      [ids, maxBytes],
    );
  }

  /**
   * Reads runs that commands are to change; unknown ids are left out. {@link update} writes a run only if it is still as it was read:
   * a lock of each row would be a record more in the write-ahead log.
   * @param readsLabels whether names and labels are read, for commands on them
   * @returns each with the database's clock: not before the time that the group saw that wrote it last
   */
  find(
    manager: EntityManager,
    ids: readonly string[],
    { readsLabels = false } = {},
  ): Promise<(FoundRun & { readonly readAt: Date })[]> {
    return rows(
      manager,
      `with found as materialized (
         select ${FOUND_COLUMNS}${readsLabels ? `, ${RUNS.select('r', ['name', 'labels'])}` : ''}
           from ${RUNS.name} r
          where r.id = any($1::uuid[])
       )
       select *, date_trunc('milliseconds', clock_timestamp()) as "readAt"
         from found`,
      [plainArray(ids)],
    );
  }

  /** Locks runs, in the order of their ids, which prevents deadlocks. */
  async lock(manager: EntityManager, ids: readonly string[]): Promise<void> {
    await execute(
      manager,
      `select
         from ${RUNS.name}
        where id = any($1::uuid[])
        order by id
          for update`,
      [plainArray(ids)],
    );
  }

  /**
   * Those of the runs that are in execution on one of these workers. The inputs and options of the first claim's runs are
   * read, and those of the next claims up to `maxBytes` together.
   * @param claimed ids of the runs of each claim
   */
  listHeldBy(
    manager: EntityManager,
    claimed: readonly (readonly string[])[],
    workerIds: readonly string[],
    maxBytes: number,
  ): Promise<HeldByClaim[]> {
    return rows(
      manager,
      `select ${MACHINE_COLUMNS}, ${RUNS.select('r', SHORT_FIELDS)}, r.is_read as "isRead",
              ${LARGE_FIELDS.map((field) => `case when r.is_read then r.${RUNS.column(field)} end as "${field}"`).join(', ')}
         from (
           select r.*,
                  sum(r.bytes) over (order by r.claim) <= $4::bigint or r.claim = min(r.claim) over () as is_read
             from (
               select r.*, c.claim, ${CLAIM_BYTES} as bytes
                 from unnest($1::uuid[], $2::integer[]) as c (id, claim)
                 join ${RUNS.name} r on r.id = c.id
                where r.worker_id = any($3::text[])
                  and r.state in ('ASSIGNED', 'RUNNING')
             ) r
         ) r
        order by r.id`,
      [claimed.flat(), claimed.flatMap((ids, claim) => ids.map(() => claim)), workerIds, maxBytes],
    );
  }

  /** Inserts new runs. @param intoQueue whether it also puts them into the queue, for runs that {@link arePlain} */
  async insert(manager: EntityManager, created: readonly CreatedRun[], intoQueue: boolean): Promise<void> {
    if (intoQueue) await execute(manager, QUEUED_RUNS, PLAIN_RUNS.source.params(created));
    else await execute(manager, ALL_RUNS.sql, ALL_RUNS.source.params(created));
  }

  /**
   * Writes the changes of runs. Outputs are written only where a command set them.
   * @param changed in the order of their ids, which makes deadlocks between groups unlikely
   * @param before by id, the runs as they were read
   * @param fields those in which a run differs from its row
   * @param executions the changes of executions that follow from it
   * @throws QueryFailedError with the code of a serialization failure if one of them was written since it was read
   */
  async update(
    manager: EntityManager,
    changed: readonly Run[],
    before: RunsAsRead,
    fields: ReadonlySet<ChangingField>,
    { ended, begun }: ExecutionChange,
  ): Promise<void> {
    const { sql, source } = updateOf(
      fields,
      changed.some(({ outputs }) => outputs !== undefined),
    );
    const values = {
      ...OUTPUTS,
      left_worker: ({ id }: Run) => ended.get(id) ?? null,
      ...writtenByOf(before),
    };
    await Promise.all([
      execute(manager, sql, source.params(changed, values)),
      begun.length > 0 && execute(manager, BEGIN_EXECUTIONS, [plainArray(begun)]),
    ]);
  }

  /** Writes names and labels of runs that {@link update} has written. */
  async label(manager: EntityManager, labelled: readonly Run[]): Promise<void> {
    await execute(manager, LABEL, LABELLED_RUNS.params(labelled, LABELS));
  }

  /**
   * Assigns pending runs to their workers, and removes them from the queue. @param before as {@link update}
   * @throws as {@link update}
   */
  assign(
    manager: EntityManager,
    assigned: readonly Run[],
    before: RunsAsRead,
  ): Promise<(ClaimedFields & { readonly id: string })[]> {
    return rows(manager, ASSIGN, ASSIGNED_RUNS.params(assigned, writtenByOf(before)));
  }
}

/** Whether none of the new runs has options: each is claimable at once, by every worker. */
export function arePlain(created: readonly RunRecord[]): boolean {
  return created.every((run) => OPTIONS.every((field) => run[field] === null));
}

/** How a statement with a column `written_by` gets the transaction that had written each run when it was read. */
function writtenByOf(before: RunsAsRead): { readonly written_by: (run: Run) => string | null } {
  return { written_by: ({ id }) => before.get(id)?.writtenBy ?? null };
}

/** Columns of `executions` from a row of `runs`. */
function executionOf(alias: string): string {
  return EXECUTIONS.fields
    .map((field) => {
      if (field === 'workerId') return `coalesce(${alias}.worker_id, '')`;
      if (field === 'cpuMillis') return cpuMillisColumn(alias);
      if (field === 'gpus') return gpusColumn(alias);
      return RUNS.columns([field === 'runId' ? 'id' : field], alias);
    })
    .join(', ');
}

function literal(value: string | number | null): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

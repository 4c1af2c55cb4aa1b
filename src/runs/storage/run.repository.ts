import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { RunRequestCopy } from '../../database/entities/run.entity.js';
import { execute, plainArray, RowArrays, rows } from '../../database/sql/sql.js';
import {
  NO_OPTIONS,
  type INITIAL_VALUES,
  type ChangingField,
  type CreatedRun,
  type FoundRun,
  type Run,
  type RunRecord,
} from '../machine/run.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../machine/new-id.js';
import {
  CPU_MILLIS,
  FOUND_COLUMNS,
  GPUS,
  MACHINE_COLUMNS,
  OUTPUTS,
  RECORD_COLUMNS,
  RUN_BYTES,
  RUNS,
  WRITTEN_BY,
} from './run-columns.js';
import { updateOf } from './run-updates.js';

/** Fields that a claim returns besides those of `Run`. */
export type ClaimedFields = Pick<
  RunRecord,
  | 'image'
  | 'name'
  | 'traceparent'
  | 'tracestate'
  | 'inputs'
  | 'labels'
  | 'options'
  | 'scheduleTime'
  | 'arrayIndex'
  | 'arraySize'
>;

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

/** What only some new runs have: without any of it a run is claimable at once, by every worker. */
const OPTIONS = RUNS.fields.filter((field): field is keyof typeof NO_OPTIONS => field in NO_OPTIONS);

/** Fields of runs that depend on others. */
const RELATIONS = [
  'concurrencyOnLimit',
  'groupId',
  'groupRef',
  'arrayIndex',
  'arraySize',
  'hasSources',
  'hasFiles',
  'waitsFor',
  'dependents',
] as const;

/** Fields that are null in a plain run. */
const NOT_PLAIN = [...OPTIONS, 'waitsFor', 'dependents'] as const;

type Given = Exclude<keyof CreatedRun, keyof typeof INITIAL_VALUES | 'queuedAt' | 'updatedAt'>;

// Columns that are null or have their default in every new run are left out. The arrays are in the order of the columns.
const PLAIN_COLUMNS = `id, attempt_id, priority, max_attempts, backoff_s, max_backoff_s, start_within_s, attempt_timeout_s,
         image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, attributes, definition_id, definition_version,
         traceparent, tracestate, created_by, created_by_name, rerun_of, request, created_at`;
const OPTION_COLUMNS = `extra_constraints, options, selector, requirement_id, concurrency_key, concurrency_limit, start_at,
         retry_on, name, labels, schedule_id, schedule_time, not_before`;
const PLAIN_ARRAYS = `$1::uuid[], $2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
         $9::text[], $10::json[], $11::json[], $12::integer[], $13::integer[], $14::integer[], $15::text[], $16::json[], $17::text[], $18::text[],
         $19::text[], $20::text[], $21::uuid[], $22::text[], $23::uuid[], $24::json[], $25::timestamptz[]`;

const INSERT_QUEUED = `with created as (
         insert into runs (
           ${PLAIN_COLUMNS},
           queued_at, updated_at, state, progress, attempt, first_event, event_count, failures, reclaims, size
         )
         select v.*, v.created_at, v.created_at, 'PENDING', 0, 1, 0, 0, 0, 0,
                octet_length(v.inputs::text) + octet_length(v.outputs_template::text) + coalesce(octet_length(v.attributes::text), 0)
           from unnest(${PLAIN_ARRAYS}) as v (${PLAIN_COLUMNS})
      returning id, priority, created_at, ram_mb, vram_mb, cpu
       )
       insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select id, priority, created_at, ram_mb, vram_mb, cpu * 1000::bigint
         from created`;
const QUEUED_RUNS = RowArrays.of<Exclude<Given, keyof typeof NO_OPTIONS | 'notBefore'>>(INSERT_QUEUED);

const OPTION_ARRAYS = `$26::json[], $27::json[], $28::json[], $29::uuid[], $30::text[], $31::integer[], $32::timestamptz[],
                $33::text[], $34::text[], $35::json[], $36::text[], $37::text[], $38::timestamptz[]`;
const BYTES_WITH_OPTIONS = `octet_length(v.inputs::text) + octet_length(v.outputs_template::text)
                + coalesce(octet_length(v.attributes::text), 0) + coalesce(octet_length(v.labels::text), 0)
                + coalesce(octet_length(v.options::text), 0) + coalesce(octet_length(v.selector::text), 0)`;

const INSERT = `insert into runs (
         ${PLAIN_COLUMNS}, ${OPTION_COLUMNS},
         queued_at, updated_at, state, progress, attempt, first_event, event_count, failures, reclaims, size
       )
       select v.*, v.created_at, v.created_at, 'PENDING', 0, 1, 0, 0, 0, 0,
              ${BYTES_WITH_OPTIONS}
         from unnest(
                ${PLAIN_ARRAYS}, ${OPTION_ARRAYS}
              ) as v (${PLAIN_COLUMNS}, ${OPTION_COLUMNS})`;
const NEW_RUNS = RowArrays.of<Exclude<Given, (typeof RELATIONS)[number]>>(INSERT);

// Of runs that belong to others: their commit may end them at once.
const LIMITED_COLUMNS = `concurrency_on_limit, state, event_count, cause, cancel_reason, finished_at, group_id, group_ref, array_index, array_size,
         has_sources, has_files, waits_for, dependents`;
const INSERT_LIMITED = `insert into runs (
         ${PLAIN_COLUMNS}, ${OPTION_COLUMNS}, ${LIMITED_COLUMNS},
         queued_at, updated_at, progress, attempt, first_event, failures, reclaims, outcome, size
       )
       select v.*, v.created_at, v.created_at, 0, 1, 0, 0, 0, case when v.finished_at is null then 'OPEN' else v.state end,
              ${BYTES_WITH_OPTIONS}
         from unnest(
                ${PLAIN_ARRAYS}, ${OPTION_ARRAYS},
                $39::text[], $40::text[], $41::integer[], $42::text[], $43::text[], $44::timestamptz[], $45::uuid[], $46::text[],
                $47::integer[], $48::integer[], $49::boolean[], $50::boolean[], $51::integer[], $52::integer[]
              ) as v (${PLAIN_COLUMNS}, ${OPTION_COLUMNS}, ${LIMITED_COLUMNS})`;
const LIMITED_RUNS = RowArrays.of<
  Given | 'state' | 'eventCount' | 'cause' | 'cancelReason' | 'finishedAt' | 'waitsFor' | 'dependents'
>(INSERT_LIMITED);

const LABEL = `update runs r
          set name = v.name,
              labels = v.labels,
              size = r.size + coalesce(octet_length(v.labels::text), 0) - coalesce(octet_length(r.labels::text), 0)
         from unnest($1::uuid[], $2::text[], $3::json[]) as v (id, name, labels)
        where r.id = v.id`;
const LABELLED_RUNS = RowArrays.of<'id' | 'name' | 'labels'>(LABEL);

const LABELS = {
  labels: ({ labels }: Run) => labels ?? null,
  name: ({ name }: Run) => name ?? null,
};

/** Executions of `runs r`. */
const BEGIN = `insert into executions (
           worker_id, run_id, created_at, assigned_at, attempt, cpu_millis, ram_mb, vram_mb, gpus, gpu_id, gpu_ids, requirement_id,
           concurrency_key
         )
         select coalesce(r.worker_id, ''), r.id, r.created_at, r.assigned_at, r.attempt, ${CPU_MILLIS}, r.ram_mb, r.vram_mb,
                ${GPUS}, r.gpu_id, r.gpu_ids, r.requirement_id, r.concurrency_key`;
const ASSIGN = `with v as materialized (
         select *
           from unnest(
                  $1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::xid[]
                ) as v (id, state, worker_id, gpu_id, gpu_ids, assigned_at, updated_at, written_by)
       ),
       assigned as (
         update runs r
            set state = v.state, worker_id = v.worker_id, gpu_id = v.gpu_id, gpu_ids = v.gpu_ids, assigned_at = v.assigned_at,
                updated_at = v.updated_at
           from v
          where r.id = v.id
            and r.xmin = v.written_by
      returning r.*
       ),
       removed as (
         delete from queue
          where run_id = any($1::uuid[])
       ),
       begun as (
         ${BEGIN}
           from assigned r
       )
       select a.id, a.image, a.name, a.traceparent, a.tracestate, a.inputs, a.labels, a.options,
                a.schedule_time as "scheduleTime", a.array_index as "arrayIndex", a.array_size as "arraySize"
         from require_all_written((select count(*) from assigned), (select count(*) from v))
         left join assigned a on true`;
const ASSIGNED_RUNS = RowArrays.of<
  'id' | 'state' | 'workerId' | 'gpuId' | 'gpuIds' | 'assignedAt' | 'updatedAt' | 'writtenBy'
>(ASSIGN);

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
             from runs r
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
         from runs
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
             from runs r
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
         select ${FOUND_COLUMNS}
                ${readsLabels ? ', r.name, r.labels' : ''}
           from runs r
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
         from runs
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
      `select ${MACHINE_COLUMNS}, r.image, r.name, r.traceparent, r.tracestate, r.schedule_time as "scheduleTime", r.array_index as "arrayIndex",
              r.array_size as "arraySize", r.is_read as "isRead",
              case when r.is_read then r.inputs end as inputs, case when r.is_read then r.labels end as labels,
              case when r.is_read then r.options end as options
         from (
           select r.*,
                  sum(r.bytes) over (order by r.claim) <= $4::bigint or r.claim = min(r.claim) over () as is_read
             from (
               select r.*, c.claim, r.size + octet_length(r.image) as bytes
                 from unnest($1::uuid[], $2::integer[]) as c (id, claim)
                 join runs r on r.id = c.id
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
    if (intoQueue) await execute(manager, INSERT_QUEUED, QUEUED_RUNS.params(created));
    else if (created.some((run) => run.finishedAt !== null || RELATIONS.some((field) => run[field] !== null)))
      await execute(manager, INSERT_LIMITED, LIMITED_RUNS.params(created));
    else await execute(manager, INSERT, NEW_RUNS.params(created));
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
      written_by: writtenByOf(before),
    };
    await Promise.all([
      execute(manager, sql, source.params(changed, values)),
      begun.length > 0 &&
        execute(manager, `${BEGIN} from runs r where r.id = any($1::uuid[])`, [plainArray(begun)]),
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
    return rows(manager, ASSIGN, ASSIGNED_RUNS.params(assigned, { writtenBy: writtenByOf(before) }));
  }
}

/** Whether none of the new runs has options or waits for others: each is claimable at once, by every worker. */
export function arePlain(created: readonly RunRecord[]): boolean {
  return created.every((run) => run.finishedAt === null && NOT_PLAIN.every((field) => run[field] === null));
}

/** Gets the transaction that had written a run when it was read. */
function writtenByOf(before: RunsAsRead): (run: Run) => string | null {
  return ({ id }) => before.get(id)?.writtenBy ?? null;
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { AttemptEntity } from '../../database/entities/attempt.entity.js';
import type { RunEntity } from '../../database/entities/run.entity.js';
import { EntityTable, type Field } from '../../database/sql/entity-table.js';
import { execute, rows, plainArray } from '../../database/sql/sql.js';
import {
  CHANGING_FIELDS,
  INITIAL_VALUES,
  NO_OPTIONS,
  type ChangingField,
  type EndedAttempt,
  type LockedRun,
  type Run,
  type RunRecord,
} from '../machine/run.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../machine/new-id.js';
import {
  CLAIM_BYTES,
  jsonBytes,
  LOCKED_COLUMNS,
  MACHINE_COLUMNS,
  QUEUE,
  RECORD_COLUMNS,
  RUN_BYTES,
  RUNS,
  WRITTEN_BY,
} from './run-columns.js';

/** Fields that a claim returns besides those of `Run`. */
const SHORT_FIELDS = ['image', 'traceparent', 'tracestate'] as const;
/** Those whose sizes requests choose. */
const LARGE_FIELDS = ['inputs', 'options'] as const;
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

export type AttemptRow = Omit<AttemptEntity, 'state' | 'size' | 'cause'> & Pick<RunRecord, 'state' | 'cause'>;

// A new run is sent without the columns that have the same value in every new run.
const CONSTANT = RUNS.fields.filter((field): field is keyof typeof INITIAL_VALUES => field in INITIAL_VALUES);
const GIVEN = RUNS.except(...CONSTANT, 'queuedAt', 'updatedAt', 'size');
const OPTIONS = RUNS.fields.filter((field): field is keyof typeof NO_OPTIONS => field in NO_OPTIONS);
const PLAIN_RUNS = insertOf(
  RUNS.except(...CONSTANT, ...OPTIONS, 'notBefore', 'queuedAt', 'updatedAt', 'size'),
  ['inputs', 'outputsTemplate', 'attributes'],
);
const ALL_RUNS = insertOf(GIVEN, ['inputs', 'outputsTemplate', 'attributes', 'options', 'selector']);

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

/**
 * Sets of fields that groups change, the smallest first: notes; starts and ends of attempts; all events of an attempt.
 * Each has statements of its own, because columns that do not change cost time in both processes.
 */
const CHANGE_SETS: readonly (readonly ChangingField[])[] = [
  ['progress', 'eventCount', 'noteCount', 'noteBytes', 'updatedAt'],
  ['state', 'progress', 'eventCount', 'startedAt', 'finishedAt', 'updatedAt'],
  [
    ...(['state', 'progress', 'eventCount', 'noteCount', 'noteBytes', 'workerId', 'gpuId'] as const),
    ...(['assignedAt', 'startedAt', 'finishedAt', 'updatedAt'] as const),
  ],
  CHANGING_FIELDS,
];
const UPDATES = CHANGE_SETS.map((fields) => {
  const plain = RUNS.unnest(['id', ...fields]);
  const withOutputs = RUNS.unnest(['id', 'outputs', ...fields], { extra: { sets_outputs: 'boolean' } });
  return {
    fields: new Set(fields),
    plain: {
      source: plain,
      sql: `update ${RUNS.name} r
          set ${RUNS.set(fields, 'v')}
         from ${plain.sql}
        where r.id = v.id`,
    },
    withOutputs: {
      source: withOutputs,
      sql: `update ${RUNS.name} r
          set ${RUNS.set(fields, 'v')},
              outputs = case when v.sets_outputs then v.outputs else r.outputs end,
              size = case
                when v.sets_outputs then r.size + ${jsonBytes('v', ['outputs'])} - ${jsonBytes('r', ['outputs'])}
                else r.size
              end
         from ${withOutputs.sql}
        where r.id = v.id`,
    },
  };
});

/** Columns that an assignment changes. */
const ASSIGNMENT = ['state', 'workerId', 'gpuId', 'assignedAt', 'updatedAt'] as const;
const ASSIGNED_RUNS = RUNS.unnest(['id', ...ASSIGNMENT]);
const ASSIGN = `with removed as (
         delete from ${QUEUE.name}
          where run_id = any($1::uuid[])
       )
       update ${RUNS.name} r
          set ${RUNS.set(ASSIGNMENT, 'v')}
         from ${ASSIGNED_RUNS.sql}
        where r.id = v.id
          and r.state = 'PENDING'
    returning ${RUNS.select('r', ['id', ...CLAIMED_FIELDS])}`;

const ATTEMPTS = new EntityTable(AttemptEntity);
const COPIED = ATTEMPTS.except('outputs', 'size');
const ENDED = ATTEMPTS.unnest(ATTEMPTS.except('size'), { extra: { sets_outputs: 'boolean' } });
const INSERT_ATTEMPTS = `insert into ${ATTEMPTS.name} (${ATTEMPTS.columns(COPIED)}, outputs, size)
       select ${ATTEMPTS.columns(COPIED, 'v')},
              case when v.sets_outputs then v.outputs else r.outputs end,
              case when v.sets_outputs then ${jsonBytes('v', ['outputs'])} else ${jsonBytes('r', ['outputs'])} end
         from ${ENDED.sql}
         join ${RUNS.name} r on r.id = v.run_id`;

/** A part of the attempts of a run. */
export interface AttemptPage {
  /** Number of the attempt after which it starts; 0: at the first. */
  readonly after: number;
  readonly limit: number;
  readonly maxBytes: number;
}

/** SQL of the tables `runs` and `attempts`, which holds the attempts before the current one. */
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
   * Locks the runs in id order, which prevents deadlocks between groups; unknown ids are left out.
   * @returns each with the database's clock after it was locked: not before the time that its last holder saw
   */
  lock(manager: EntityManager, ids: readonly string[]): Promise<(LockedRun & { readonly lockedAt: Date })[]> {
    return rows(
      manager,
      `with locked as materialized (
         select ${LOCKED_COLUMNS}
           from ${RUNS.name} r
          where r.id = any($1::uuid[])
          order by r.id
            for update
       )
       select *, date_trunc('milliseconds', clock_timestamp()) as "lockedAt"
         from locked`,
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

  async insert(manager: EntityManager, created: readonly RunRecord[]): Promise<void> {
    const { source, sql } = created.some(hasOptions) ? ALL_RUNS : PLAIN_RUNS;
    await execute(manager, sql, source.params(created));
  }

  /**
   * Writes the changes of locked runs. Outputs are written only where a command set them.
   * @param fields those in which a run differs from its row
   */
  async update(
    manager: EntityManager,
    changed: readonly Run[],
    fields: ReadonlySet<ChangingField>,
  ): Promise<void> {
    const update = UPDATES.find((one) => [...fields].every((field) => one.fields.has(field)));
    if (update === undefined) throw new Error('no statement changes all of these fields');
    const { plain, withOutputs } = update;
    if (changed.every(({ outputs }) => outputs === undefined)) {
      await execute(manager, plain.sql, plain.source.params(changed));
    } else {
      await execute(manager, withOutputs.sql, withOutputs.source.params(changed, OUTPUTS));
    }
  }

  /** Assigns pending runs, which the caller has locked, to their workers, and removes them from the queue. */
  assign(
    manager: EntityManager,
    assigned: readonly Run[],
  ): Promise<(ClaimedFields & { readonly id: string })[]> {
    return rows(manager, ASSIGN, ASSIGNED_RUNS.params(assigned));
  }

  /** Writes ended attempts. Must precede `update`: outputs that no command set are copied from the run's row. */
  async insertAttempts(manager: EntityManager, ended: readonly EndedAttempt[]): Promise<void> {
    await execute(manager, INSERT_ATTEMPTS, ENDED.params(ended, OUTPUTS));
  }

  /**
   * Attempts of a run before the current one, oldest first: those after a number, up to `limit`, and as many as come to
   * `maxBytes` with what an answer repeats of the run for each; the first is read whatever its size.
   */
  async listEndedAttempts(
    manager: EntityManager,
    runId: string,
    { after, limit, maxBytes }: AttemptPage,
  ): Promise<{ readonly attempts: AttemptRow[]; readonly hasMore: boolean }> {
    const found = await rows<AttemptRow & { readonly found: string }>(
      manager,
      `select ${ATTEMPTS.select('a', ATTEMPTS.except('size'))}, a.found
         from (
           select b.*,
                  count(*) over () as found,
                  sum(b.bytes) over walk as bytes_so_far,
                  row_number() over walk as nth
             from (
               select a.*,
                      a.size
                        + coalesce(octet_length(a.error_message), 0)
                        + (select ${RUN_BYTES} from ${RUNS.name} r where r.id = $1::uuid) as bytes
                 from ${ATTEMPTS.name} a
                where a.run_id = $1::uuid
                  and a.attempt > $2::integer
                order by a.attempt
                limit $3::integer + 1
             ) b
           window walk as (order by b.attempt rows unbounded preceding)
         ) a
        where a.bytes_so_far <= $4::bigint or a.nth = 1
        order by a.attempt
        limit $3::integer`,
      [runId, after, limit, maxBytes],
    );
    return {
      attempts: found,
      hasMore: Number(found[0]?.found ?? 0) > found.length,
    };
  }
}

const OUTPUTS = {
  sets_outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs !== undefined,
  outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs ?? null,
};

function hasOptions(run: RunRecord): boolean {
  return OPTIONS.some((field) => run[field] !== null);
}

function literal(value: string | number | null): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

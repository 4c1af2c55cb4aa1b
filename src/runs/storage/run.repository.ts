import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { AttemptEntity } from '../../database/entities/attempt.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { execute, rows } from '../../database/sql.js';
import {
  CHANGING_FIELDS,
  INITIAL_VALUES,
  type EndedAttempt,
  type Run,
  type RunRecord,
} from '../machine/run.js';
import type { RunState } from '../machine/run-state.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from './new-id.js';
import { MACHINE_COLUMNS, RECORD_COLUMNS, RUNS } from './run-columns.js';

/** Fields that a claim returns besides those of `Run`. */
const CLAIMED_FIELDS = ['image', 'inputs', 'traceparent', 'tracestate'] as const;
export type ClaimedFields = Pick<RunRecord, (typeof CLAIMED_FIELDS)[number]>;

export type AttemptRow = Omit<AttemptEntity, 'state'> & { readonly state: RunState };

// A new run is sent without the columns that have the same value in every new run.
const CONSTANT = RUNS.fields.filter((field): field is keyof typeof INITIAL_VALUES => field in INITIAL_VALUES);
const GIVEN = RUNS.except(...CONSTANT, 'queuedAt', 'updatedAt');
const NEW_RUNS = RUNS.unnest(GIVEN);
const INSERT = `insert into ${RUNS.name} (${RUNS.columns([...GIVEN, ...CONSTANT, 'queuedAt', 'updatedAt'])})
       select ${RUNS.columns(GIVEN, 'v')}, ${CONSTANT.map((field) => literal(INITIAL_VALUES[field])).join(', ')},
              v.created_at, v.created_at
         from ${NEW_RUNS.sql}`;

const CHANGED_RUNS = RUNS.unnest(['id', 'outputs', ...CHANGING_FIELDS], {
  extra: { sets_outputs: 'boolean' },
});
const UPDATE = `update ${RUNS.name} r
          set ${RUNS.set(CHANGING_FIELDS, 'v')},
              outputs = case when v.sets_outputs then v.outputs else r.outputs end
         from ${CHANGED_RUNS.sql}
        where r.id = v.id`;

/** Columns that an assignment changes. */
const ASSIGNMENT = ['state', 'workerId', 'gpuId', 'assignedAt', 'updatedAt'] as const;
const ASSIGNED_RUNS = RUNS.unnest(['id', ...ASSIGNMENT]);
const ASSIGN = `update ${RUNS.name} r
          set ${RUNS.set(ASSIGNMENT, 'v')}
         from ${ASSIGNED_RUNS.sql}
        where r.id = v.id
          and r.state = 'PENDING'
    returning ${RUNS.select('r', ['id', ...CLAIMED_FIELDS])}`;

const ATTEMPTS = new EntityTable(AttemptEntity);
const COPIED = ATTEMPTS.except('outputs');
const ENDED = ATTEMPTS.unnest(ATTEMPTS.fields, { extra: { sets_outputs: 'boolean' } });
const INSERT_ATTEMPTS = `insert into ${ATTEMPTS.name} (${ATTEMPTS.columns(COPIED)}, outputs)
       select ${ATTEMPTS.columns(COPIED, 'v')},
              case when v.sets_outputs then v.outputs else r.outputs end
         from ${ENDED.sql}
         join ${RUNS.name} r on r.id = v.run_id`;

/** SQL of the tables `runs` and `attempts`, which holds the attempts before the current one. */
@Injectable()
export class RunRepository {
  /** The run with its current attempt. @throws RunNotFound */
  async get(manager: EntityManager, id: string): Promise<RunRecord> {
    const [run] = isRunId(id) ? await this.findAll(manager, [id]) : [];
    if (!run) throw new RunNotFound(id);
    return run;
  }

  /** The runs with these ids, in no order; unknown ids are left out. */
  findAll(manager: EntityManager, ids: readonly string[]): Promise<RunRecord[]> {
    return rows(
      manager,
      `select ${RECORD_COLUMNS}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])`,
      [ids],
    );
  }

  /** Locks the runs in id order, which prevents deadlocks between groups; unknown ids are left out. */
  lock(manager: EntityManager, ids: readonly string[]): Promise<Run[]> {
    return rows(
      manager,
      `select ${MACHINE_COLUMNS}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])
        order by r.id
          for update`,
      [ids],
    );
  }

  /** Those of the runs that are in execution on one of these workers. */
  listHeldBy(
    manager: EntityManager,
    ids: readonly string[],
    workerIds: readonly string[],
  ): Promise<(Run & ClaimedFields)[]> {
    return rows(
      manager,
      `select ${MACHINE_COLUMNS}, ${RUNS.select('r', CLAIMED_FIELDS)}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])
          and r.worker_id = any($2::text[])
          and r.state in ('ASSIGNED', 'RUNNING')
        order by r.id`,
      [ids, workerIds],
    );
  }

  async insert(manager: EntityManager, created: readonly RunRecord[]): Promise<void> {
    await execute(manager, INSERT, NEW_RUNS.params(created));
  }

  /** Writes the changes of locked runs. Outputs are written only where a command set them. */
  async update(manager: EntityManager, changed: readonly Run[]): Promise<void> {
    await execute(manager, UPDATE, CHANGED_RUNS.params(changed, OUTPUTS));
  }

  /** Assigns pending runs, which the caller has locked, to their workers. */
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

  /** The attempts of a run before the current one, oldest first; at most 999. */
  findEndedAttempts(manager: EntityManager, runId: string): Promise<AttemptRow[]> {
    return rows(
      manager,
      `select ${ATTEMPTS.select('a')}
         from ${ATTEMPTS.name} a
        where a.run_id = $1::uuid
        order by a.attempt`,
      [runId],
    );
  }
}

const OUTPUTS = {
  sets_outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs !== undefined,
  outputs: ({ outputs }: Pick<Run, 'outputs'>) => outputs ?? null,
};

function literal(value: string | number | null): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

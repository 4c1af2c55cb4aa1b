import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { RunEntity } from '../../database/entities/run.entity.js';
import { execute, rows } from '../../database/sql.js';
import { jsonText } from '@longshore/common/json/json-text';
import type { NewRun, Run } from '../machine/run.js';
import { MACHINE_COLUMNS, MACHINE_FIELDS, RECORD_COLUMNS, RUNS } from './run-columns.js';

/** Columns that the machine does not read and a worker needs. */
const CARRIED = ['image', 'inputs', 'traceparent', 'tracestate'] as const;
type CarriedColumns = Pick<RunEntity, (typeof CARRIED)[number]>;

/** SQL of the columns of a new run that have the same value in every run; `v` holds the other columns. */
const AT_CREATION = {
  state: `'PENDING'`,
  progress: '0',
  attempt: '1',
  firstEvent: '0',
  eventCount: '0',
  failures: '0',
  reclaims: '0',
  queuedAt: 'v.created_at',
  updatedAt: 'v.created_at',
} as const;
const CONSTANT = RUNS.fields.filter((field): field is keyof typeof AT_CREATION => field in AT_CREATION);

/** Columns whose values a new run is given; the rest is null. */
const GIVEN = RUNS.except(
  ...CONSTANT,
  'outputs',
  'gpuId',
  'workerId',
  'errorMessage',
  'notBefore',
  'assignedAt',
  'startedAt',
  'finishedAt',
);
const NEW_RUNS = RUNS.unnest(GIVEN);
const INSERT = `insert into ${RUNS.name} (${RUNS.columns(GIVEN)}, ${RUNS.columns(CONSTANT)})
       select ${RUNS.columns(GIVEN, 'v')}, ${CONSTANT.map((field) => AT_CREATION[field]).join(', ')}
         from ${NEW_RUNS.sql}`;

/** Columns that never change after the creation. */
const FIXED: ReadonlySet<string> = new Set<keyof Run>([
  'id',
  'maxAttempts',
  'backoffS',
  'maxBackoffS',
  'startWithinS',
  'attemptTimeoutS',
  'topic',
  'ramMb',
  'vramMb',
  'cpu',
  'createdAt',
]);
const CHANGING = MACHINE_FIELDS.filter((field) => !FIXED.has(field));
const CHANGED_RUNS = RUNS.unnest(['id', 'outputs', ...CHANGING], { extra: { sets_outputs: 'boolean' } });
const UPDATE = `update ${RUNS.name} r
          set ${RUNS.set(CHANGING, 'v')},
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
    returning ${RUNS.select('r', ['id', ...CARRIED])}`;

/** A run that has just been handed out: what its worker needs to know of it. */
export interface AssignedRun extends Readonly<CarriedColumns> {
  readonly id: string;
}

/** SQL of the table `runs`: one method per statement. */
@Injectable()
export class RunRepository {
  /** The run with its current attempt, or null. */
  async find(manager: EntityManager, id: string): Promise<RunEntity | null> {
    const [run] = await this.findAll(manager, [id]);
    return run ?? null;
  }

  /** The runs of these ids, in no order; unknown ones are left out. */
  findAll(manager: EntityManager, ids: readonly string[]): Promise<RunEntity[]> {
    return rows<RunEntity>(
      manager,
      `select ${RECORD_COLUMNS}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])`,
      [ids],
    );
  }

  /** Locks the runs in id order, so that two groups never wait for each other in a circle; unknown ids are left out. */
  lock(manager: EntityManager, ids: readonly string[]): Promise<Run[]> {
    return rows<Run>(
      manager,
      `select ${MACHINE_COLUMNS}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])
        order by r.id
          for update`,
      [ids],
    );
  }

  /** Runs of these ids that are in execution and in the hands of one of these workers. */
  listHeldBy(
    manager: EntityManager,
    ids: readonly string[],
    workerIds: readonly string[],
  ): Promise<(Run & CarriedColumns)[]> {
    return rows<Run & CarriedColumns>(
      manager,
      `select ${MACHINE_COLUMNS}, ${RUNS.select('r', CARRIED)}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])
          and r.worker_id = any($2::text[])
          and r.state in ('ASSIGNED', 'RUNNING')
        order by r.id`,
      [ids, workerIds],
    );
  }

  /** Writes new runs: `run` as the machine made it, `fresh` for what the machine only carries. */
  async insert(
    manager: EntityManager,
    created: readonly { readonly run: Run; readonly fresh: NewRun }[],
  ): Promise<void> {
    const params = NEW_RUNS.params(
      created.map(({ run, fresh }) => ({
        id: run.id,
        attemptId: run.attemptId,
        priority: run.priority,
        maxAttempts: run.maxAttempts,
        backoffS: run.backoffS,
        maxBackoffS: run.maxBackoffS,
        startWithinS: run.startWithinS,
        attemptTimeoutS: run.attemptTimeoutS,
        ramMb: run.ramMb,
        vramMb: run.vramMb,
        cpu: run.cpu,
        topic: run.topic,
        createdAt: run.createdAt,
        image: fresh.image,
        inputs: jsonText(fresh.inputs),
        outputsTemplate: jsonText(fresh.outputsTemplate),
        attributes: fresh.eventDelivery?.attributes ? JSON.stringify(fresh.eventDelivery.attributes) : null,
        definitionId: fresh.definition?.id ?? null,
        definitionVersion: fresh.definition?.version ?? null,
        traceparent: fresh.trace?.traceparent ?? null,
        tracestate: fresh.trace?.tracestate ?? null,
      })),
    );
    await execute(manager, INSERT, params);
  }

  /** Writes what the machine changed; the rows are locked by the caller. Outputs are touched only where they were set. */
  async update(manager: EntityManager, changed: readonly Run[]): Promise<void> {
    const params = CHANGED_RUNS.params(changed, {
      sets_outputs: (run) => run.outputs !== undefined,
      outputs: (run) => (run.outputs ? jsonText(run.outputs) : null),
    });
    await execute(manager, UPDATE, params);
  }

  /** Writes assignments and answers what the workers need; the rows are locked by the caller. */
  async assign(manager: EntityManager, assigned: readonly Run[]): Promise<AssignedRun[]> {
    return rows<AssignedRun>(manager, ASSIGN, ASSIGNED_RUNS.params(assigned));
  }
}

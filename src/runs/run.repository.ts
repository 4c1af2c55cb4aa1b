import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { RunEntity } from '../database/entities/run.entity.js';
import { execute, rows, unnestRows } from '../database/sql.js';
import { jsonText } from '../json/json-text.js';
import type { NewRun, Run } from './run-machine/run.js';
import { MACHINE_COLUMNS, RECORD_COLUMNS } from './run-columns.js';

/** What the machine only carries, and a worker needs to know. */
type CarriedColumns = Pick<RunEntity, 'image' | 'inputs' | 'traceparent' | 'tracestate'>;

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
         from runs r
        where r.id = any($1::uuid[])`,
      [ids],
    );
  }

  /** Locks the runs in id order, so that two groups never wait for each other in a circle; unknown ids are left out. */
  lock(manager: EntityManager, ids: readonly string[]): Promise<Run[]> {
    return rows<Run>(
      manager,
      `select ${MACHINE_COLUMNS}
         from runs r
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
      `select ${MACHINE_COLUMNS}, r.image, r.inputs, r.traceparent, r.tracestate
         from runs r
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
    const source = unnestRows(
      {
        id: 'uuid',
        attempt_id: 'uuid',
        priority: 'integer',
        max_attempts: 'integer',
        backoff_s: 'integer',
        max_backoff_s: 'integer',
        start_within_s: 'integer',
        attempt_timeout_s: 'integer',
        image: 'text',
        inputs: 'json',
        outputs_template: 'json',
        ram_mb: 'integer',
        vram_mb: 'integer',
        cpu: 'integer',
        topic: 'text',
        attributes: 'json',
        definition_id: 'text',
        definition_version: 'text',
        traceparent: 'text',
        tracestate: 'text',
        at: 'timestamptz',
      },
      created.map(({ run, fresh }) => ({
        id: run.id,
        attempt_id: run.attemptId,
        priority: run.priority,
        max_attempts: run.maxAttempts,
        backoff_s: run.backoffS,
        max_backoff_s: run.maxBackoffS,
        start_within_s: run.startWithinS,
        attempt_timeout_s: run.attemptTimeoutS,
        image: fresh.image,
        inputs: jsonText(fresh.inputs),
        outputs_template: jsonText(fresh.outputsTemplate),
        ram_mb: run.ramMb,
        vram_mb: run.vramMb,
        cpu: run.cpu,
        topic: run.topic,
        attributes: fresh.eventDelivery?.attributes ? JSON.stringify(fresh.eventDelivery.attributes) : null,
        definition_id: fresh.definition?.id ?? null,
        definition_version: fresh.definition?.version ?? null,
        traceparent: fresh.trace?.traceparent ?? null,
        tracestate: fresh.trace?.tracestate ?? null,
        at: run.createdAt,
      })),
    );
    await execute(
      manager,
      `insert into runs (
         id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
         max_attempts, backoff_s, max_backoff_s, start_within_s, attempt_timeout_s, image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, attributes,
         definition_id, definition_version, traceparent, tracestate, queued_at, created_at, updated_at
       )
       select id, 'PENDING', priority, 0, 1, attempt_id, 0, 0, 0, 0,
              max_attempts, backoff_s, max_backoff_s, start_within_s, attempt_timeout_s, image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, attributes,
              definition_id, definition_version, traceparent, tracestate, at, at, at
         from ${source.sql}`,
      source.params,
    );
  }

  /** Writes what the machine changed; the rows are locked by the caller. Outputs are touched only where they were set. */
  async update(manager: EntityManager, changed: readonly Run[]): Promise<void> {
    const source = unnestRows(
      {
        id: 'uuid',
        state: 'text',
        priority: 'integer',
        progress: 'smallint',
        attempt: 'integer',
        attempt_id: 'uuid',
        first_event: 'integer',
        event_count: 'integer',
        failures: 'integer',
        reclaims: 'integer',
        sets_outputs: 'boolean',
        outputs: 'json',
        gpu_id: 'integer',
        worker_id: 'text',
        error_message: 'text',
        queued_at: 'timestamptz',
        not_before: 'timestamptz',
        assigned_at: 'timestamptz',
        started_at: 'timestamptz',
        finished_at: 'timestamptz',
        updated_at: 'timestamptz',
      },
      changed.map((run) => ({
        id: run.id,
        state: run.state,
        priority: run.priority,
        progress: run.progress,
        attempt: run.attempt,
        attempt_id: run.attemptId,
        first_event: run.firstEvent,
        event_count: run.eventCount,
        failures: run.failures,
        reclaims: run.reclaims,
        sets_outputs: run.outputs !== undefined,
        outputs: run.outputs ? jsonText(run.outputs) : null,
        gpu_id: run.gpuId,
        worker_id: run.workerId,
        error_message: run.errorMessage,
        queued_at: run.queuedAt,
        not_before: run.notBefore,
        assigned_at: run.assignedAt,
        started_at: run.startedAt,
        finished_at: run.finishedAt,
        updated_at: run.updatedAt,
      })),
    );
    await execute(
      manager,
      `update runs r
          set state = v.state,
              priority = v.priority,
              progress = v.progress,
              attempt = v.attempt,
              attempt_id = v.attempt_id,
              first_event = v.first_event,
              event_count = v.event_count,
              failures = v.failures,
              reclaims = v.reclaims,
              outputs = case when v.sets_outputs then v.outputs else r.outputs end,
              gpu_id = v.gpu_id,
              worker_id = v.worker_id,
              error_message = v.error_message,
              queued_at = v.queued_at,
              not_before = v.not_before,
              assigned_at = v.assigned_at,
              started_at = v.started_at,
              finished_at = v.finished_at,
              updated_at = v.updated_at
         from ${source.sql}
        where r.id = v.id`,
      source.params,
    );
  }

  /** Writes assignments and answers what the workers need; the rows are locked by the caller. */
  async assign(manager: EntityManager, assigned: readonly Run[]): Promise<AssignedRun[]> {
    const source = unnestRows(
      {
        id: 'uuid',
        state: 'text',
        worker_id: 'text',
        gpu_id: 'integer',
        assigned_at: 'timestamptz',
        updated_at: 'timestamptz',
      },
      assigned.map((run) => ({
        id: run.id,
        state: run.state,
        worker_id: run.workerId,
        gpu_id: run.gpuId,
        assigned_at: run.assignedAt,
        updated_at: run.updatedAt,
      })),
    );
    return rows<AssignedRun>(
      manager,
      `update runs r
          set state = v.state,
              worker_id = v.worker_id,
              gpu_id = v.gpu_id,
              assigned_at = v.assigned_at,
              updated_at = v.updated_at
         from ${source.sql}
        where r.id = v.id
          and r.state = 'PENDING'
    returning r.id, r.image, r.inputs, r.traceparent, r.tracestate`,
      source.params,
    );
  }
}

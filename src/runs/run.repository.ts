import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { RunEntity } from '../database/entities/run.entity.js';
import { execute, rows, unnestRows } from '../database/sql.js';
import { jsonText } from '../json/json-text.js';
import type { JsonObject } from '../json/json-value.js';
import type { NewRun, Run } from './run-machine/run.js';

/** A run that has just been handed out: what its worker needs to know of it. */
export interface AssignedRun {
  readonly id: string;
  readonly image: string;
  readonly inputs: JsonObject;
}

const MACHINE_COLUMNS = `
  r.id, r.state, r.priority, r.progress, r.attempt, r.attempt_id as "attemptId",
  r.first_event as "firstEvent", r.event_count as "eventCount", r.failures, r.reclaims,
  r.max_attempts as "maxAttempts", r.topic, r.ram_mb as "ramMb", r.vram_mb as "vramMb", r.cpu,
  r.gpu_id as "gpuId", r.worker_id as "workerId", r.error_message as "errorMessage",
  r.queued_at as "queuedAt", r.assigned_at as "assignedAt", r.started_at as "startedAt",
  r.finished_at as "finishedAt", r.created_at as "createdAt", r.updated_at as "updatedAt"`;

/** SQL of the table `runs`: one method per statement. */
@Injectable()
export class RunRepository {
  /** The run with its current attempt, or null. */
  find(manager: EntityManager, id: string): Promise<RunEntity | null> {
    return manager.findOneBy(RunEntity, { id });
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

  /**
   * Locks the head of the queue together with its runs. What others hold is passed over, so this never waits and
   * gives `limit` runs whenever that many are free. Order: priority descending, then age, then id.
   */
  lockQueueHead(manager: EntityManager, limit: number): Promise<Run[]> {
    return rows<Run>(
      manager,
      `select ${MACHINE_COLUMNS}
         from run_queue q
         join runs r on r.id = q.run_id
        order by q.priority desc, q.created_at, q.run_id
        limit $1
          for update skip locked`,
      [limit],
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
        at: 'timestamptz',
      },
      created.map(({ run, fresh }) => ({
        id: run.id,
        attempt_id: run.attemptId,
        priority: run.priority,
        max_attempts: run.maxAttempts,
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
        at: run.createdAt,
      })),
    );
    await execute(
      manager,
      `insert into runs (
         id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
         max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, attributes,
         definition_id, definition_version, queued_at, created_at, updated_at
       )
       select id, 'PENDING', priority, 0, 1, attempt_id, 0, 0, 0, 0,
              max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, attributes,
              definition_id, definition_version, at, at, at
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
    returning r.id, r.image, r.inputs`,
      source.params,
    );
  }
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { AttemptEntity } from '../database/entities/attempt.entity.js';
import { execute, unnestRows } from '../database/sql.js';
import type { EndedAttempt } from './run-machine/run.js';

/** SQL of the table `attempts`, which holds the attempts before the current one. */
@Injectable()
export class AttemptRepository {
  /** Attempts of a run that were followed by another, oldest first; at most 999 by the limit on attempts. */
  findEnded(manager: EntityManager, runId: string): Promise<AttemptEntity[]> {
    return manager.find(AttemptEntity, { where: { runId }, order: { attempt: 'asc' } });
  }

  /**
   * Writes ended attempts. Outputs that the machine did not set are taken from the run's row, so this comes
   * before the row is written over.
   */
  async insert(manager: EntityManager, ended: readonly EndedAttempt[]): Promise<void> {
    const source = unnestRows(
      {
        run_id: 'uuid',
        attempt: 'integer',
        id: 'uuid',
        state: 'text',
        progress: 'smallint',
        sets_outputs: 'boolean',
        outputs: 'json',
        gpu_id: 'integer',
        worker_id: 'text',
        error_message: 'text',
        first_event: 'integer',
        end_event: 'integer',
        queued_at: 'timestamptz',
        assigned_at: 'timestamptz',
        started_at: 'timestamptz',
        finished_at: 'timestamptz',
      },
      ended.map((attempt) => ({
        run_id: attempt.runId,
        attempt: attempt.attempt,
        id: attempt.id,
        state: attempt.state,
        progress: attempt.progress,
        sets_outputs: attempt.outputs !== undefined,
        outputs: attempt.outputs ? JSON.stringify(attempt.outputs) : null,
        gpu_id: attempt.gpuId,
        worker_id: attempt.workerId,
        error_message: attempt.errorMessage,
        first_event: attempt.firstEvent,
        end_event: attempt.endEvent,
        queued_at: attempt.queuedAt,
        assigned_at: attempt.assignedAt,
        started_at: attempt.startedAt,
        finished_at: attempt.finishedAt,
      })),
    );
    await execute(
      manager,
      `insert into attempts (
         run_id, attempt, id, state, progress, outputs, gpu_id, worker_id, error_message,
         first_event, end_event, queued_at, assigned_at, started_at, finished_at
       )
       select v.run_id, v.attempt, v.id, v.state, v.progress,
              case when v.sets_outputs then v.outputs else r.outputs end,
              v.gpu_id, v.worker_id, v.error_message,
              v.first_event, v.end_event, v.queued_at, v.assigned_at, v.started_at, v.finished_at
         from ${source.sql}
         join runs r on r.id = v.run_id`,
      source.params,
    );
  }
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { AttemptEntity } from '../../database/entities/attempt.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { execute } from '../../database/sql.js';
import { RUNS } from './run-columns.js';
import type { EndedAttempt } from '../machine/run.js';

const ATTEMPTS = new EntityTable(AttemptEntity);
const COPIED = ATTEMPTS.except('outputs');
const ENDED = ATTEMPTS.unnest(ATTEMPTS.fields, { extra: { sets_outputs: 'boolean' } });
const INSERT = `insert into ${ATTEMPTS.name} (${ATTEMPTS.columns(COPIED)}, outputs)
       select ${ATTEMPTS.columns(COPIED, 'v')},
              case when v.sets_outputs then v.outputs else r.outputs end
         from ${ENDED.sql}
         join ${RUNS.name} r on r.id = v.run_id`;

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
    const params = ENDED.params(ended, {
      sets_outputs: (attempt) => attempt.outputs !== undefined,
      outputs: (attempt) => (attempt.outputs ? JSON.stringify(attempt.outputs) : null),
    });
    await execute(manager, INSERT, params);
  }
}

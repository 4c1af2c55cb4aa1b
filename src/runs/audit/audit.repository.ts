import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { AuditEntryEntity } from '../../database/entities/audit-entry.entity.js';
import { execute, rows, unnestRows } from '../../database/sql.js';
import type { JsonObject } from '../../json/json-value.js';
import type { Run } from '../run-machine/run.js';

/** A direct mutation, as the audit log keeps it. */
export interface AuditRecord {
  readonly keyName: string;
  readonly before: Run;
  readonly after: Run;
  /** The outputs that were set, if any were. */
  readonly outputs?: JsonObject | undefined;
}

/** SQL of the table `audit_entries`. */
@Injectable()
export class AuditRepository {
  /**
   * Writes records of mutations. Outputs that a mutation replaced are taken from the run's row where the group has
   * not set them itself, so this comes before the row is written over.
   */
  async insert(manager: EntityManager, records: readonly AuditRecord[]): Promise<void> {
    const source = unnestRows(
      {
        n: 'integer',
        t: 'timestamptz',
        key_name: 'text',
        run_id: 'uuid',
        state_before: 'text',
        priority_before: 'integer',
        knows_outputs: 'boolean',
        outputs_before: 'json',
        state_after: 'text',
        priority_after: 'integer',
        outputs_after: 'json',
      },
      records.map(({ keyName, before, after, outputs }, n) => ({
        n,
        t: after.updatedAt,
        key_name: keyName,
        run_id: after.id,
        state_before: before.state,
        priority_before: before.priority,
        knows_outputs: before.outputs !== undefined,
        outputs_before: before.outputs ? JSON.stringify(before.outputs) : null,
        state_after: after.state,
        priority_after: after.priority,
        outputs_after: outputs === undefined ? null : JSON.stringify(outputs),
      })),
    );
    await execute(
      manager,
      `insert into audit_entries (t, key_name, run_id, before, after)
       select v.t, v.key_name, v.run_id,
              case
                when v.outputs_after is null
                then json_build_object('state', v.state_before, 'priority', v.priority_before)
                else json_build_object(
                       'state', v.state_before,
                       'priority', v.priority_before,
                       'outputs', case
                                    when v.knows_outputs then coalesce(v.outputs_before, r.outputs_template)
                                    else coalesce(r.outputs, r.outputs_template)
                                  end
                     )
              end,
              case
                when v.outputs_after is null
                then json_build_object('state', v.state_after, 'priority', v.priority_after)
                else json_build_object(
                       'state', v.state_after,
                       'priority', v.priority_after,
                       'outputs', v.outputs_after
                     )
              end
         from ${source.sql}
         join runs r on r.id = v.run_id
        order by v.n`,
      source.params,
    );
  }

  /** Entries before an entry's id, newest first. @param before null: from the newest on */
  list(manager: EntityManager, before: string | null, limit: number): Promise<AuditEntryEntity[]> {
    return rows<AuditEntryEntity>(
      manager,
      `select id, t, key_name as "keyName", run_id as "runId", before, after
         from audit_entries
        ${before === null ? '' : 'where id < $2::bigint'}
        order by id desc
        limit $1`,
      before === null ? [limit] : [limit, before],
    );
  }
}

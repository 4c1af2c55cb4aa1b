import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { AuditEntryEntity } from '../../database/entities/audit-entry.entity.js';
import { RunEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { execute, unnestRows } from '../../database/sql.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Run } from '../machine/run.js';

/** A direct mutation, as the audit log keeps it. */
export interface AuditRecord {
  readonly keyName: string;
  readonly before: Run;
  readonly after: Run;
  /** The outputs that were set, if any were. */
  readonly outputs?: JsonObject | undefined;
}

const ENTRIES = new EntityTable(AuditEntryEntity);
const RUNS = new EntityTable(RunEntity);

/** Appends to the audit log, in the transaction of the mutation. */
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
      `insert into ${ENTRIES.name} (${ENTRIES.columns(['t', 'keyName', 'runId', 'before', 'after'])})
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
         join ${RUNS.name} r on r.id = v.run_id
        order by v.n`,
      source.params,
    );
  }
}

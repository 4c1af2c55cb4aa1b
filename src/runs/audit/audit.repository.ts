import type { EntityManager } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { BulkOperationEntity } from '../../database/entities/bulk-operation.entity.js';
import { AuditEntryEntity } from '../../database/entities/security.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import { RUNS } from '../storage/run-columns.js';

export interface AuditRecord {
  readonly action: 'run.patch' | 'run.labels';
  readonly keyName: string;
  readonly before: Run;
  readonly after: Run;
  /** The outputs that were set, if any were. */
  readonly outputs?: JsonObject | undefined;
}

const ENTRIES = new EntityTable(AuditEntryEntity);
const NEW_ENTRIES = ENTRIES.unnest(['t', 'keyName', 'action', 'runId', 'before', 'after'], {
  extra: {
    n: 'integer',
    state: 'text',
    priority: 'integer',
    reads_outputs: 'boolean',
    is_template: 'boolean',
  },
});
const INSERT = `insert into ${ENTRIES.name} (${ENTRIES.columns(['t', 'keyName', 'action', 'runId', 'before', 'after'])})
       select v.t, v.key_name, v.action, v.run_id,
              case
                when v.reads_outputs
                then json_build_object(
                       'state', v.state,
                       'priority', v.priority,
                       'outputs', case
                                    when v.is_template then r.outputs_template
                                    else coalesce(r.outputs, r.outputs_template)
                                  end
                     )
                else v.before
              end,
              v.after
         from ${NEW_ENTRIES.sql}
         join ${RUNS.name} r on r.id = v.run_id
        order by v.n`;

/**
 * Writes audit records, in the transaction of the changes. Must precede the update of the runs: replaced outputs that the
 * group did not set are read from the run's row.
 */
export async function insertAuditRecords(
  manager: EntityManager,
  records: readonly AuditRecord[],
): Promise<void> {
  const params = NEW_ENTRIES.params(records, {
    n: (_, n) => n,
    t: ({ after }) => after.updatedAt,
    runId: ({ after }) => after.id,
    state: ({ before }) => before.state,
    priority: ({ before }) => before.priority,
    reads_outputs: ({ before, outputs }) => outputs !== undefined && !before.outputs,
    is_template: ({ before }) => before.outputs === null,
    before: ({ action, before, outputs }) => snapshot(action, before, outputs && before.outputs),
    after: ({ action, after, outputs }) => snapshot(action, after, outputs),
  });
  await execute(manager, INSERT, params);
}

const OPERATIONS = new EntityTable(BulkOperationEntity);
/** What the entry of a bulk operation says of it, from its row `o`. */
const OPERATION_ENTRY = `json_build_object(
                'action', o.action, 'filter', o.filter, 'matched', o.matched, 'value', o.value, 'reason', o.reason,
                'done', case when o.ended_at is not null then o.processed - o.refused end,
                'refused', case when o.ended_at is not null then o.refused end,
                'stopped', case when o.ended_at is not null then o.state = 'stopped' end
              )`;

/** Writes the entry of a bulk operation, in the transaction that stores it. */
export async function insertBulkEntry(manager: EntityManager, operationId: string): Promise<void> {
  await execute(
    manager,
    `insert into ${ENTRIES.name} (${ENTRIES.columns(['t', 'keyName', 'action', 'subject', 'before', 'after'])})
     select date_trunc('milliseconds', clock_timestamp()), o.key_name, 'bulk.start', o.id, '{}', ${OPERATION_ENTRY}
       from ${OPERATIONS.name} o
      where o.id = $1::uuid`,
    [operationId],
  );
}

/** Completes the entries of those of the operations that have ended, in the transaction that ends them. */
export async function completeBulkEntries(
  manager: EntityManager,
  operationIds: readonly string[],
): Promise<void> {
  await execute(
    manager,
    `update ${ENTRIES.name} e
        set after = ${OPERATION_ENTRY}
       from ${OPERATIONS.name} o
      where o.id = any($1::uuid[])
        and o.ended_at is not null
        and e.action = 'bulk.start'
        and e.subject = o.id::text`,
    [operationIds],
  );
}

/** Removes up to `limit` of the oldest entries, those that were written before the time. @returns how many */
export function removeAuditEntries(manager: EntityManager, before: Date, limit: number): Promise<number> {
  return execute(
    manager,
    `delete from ${ENTRIES.name}
      where id in (
              select id
                from ${ENTRIES.name}
               where id = any(array(
                       select id
                         from (select id, t from ${ENTRIES.name} order by id limit $2::integer) oldest
                        where t < $1::timestamptz
                     ))
                 for update skip locked
            )`,
    [before.toISOString(), limit],
  );
}

function snapshot(
  action: AuditRecord['action'],
  { state, priority, name = null, labels }: Run,
  outputs: JsonObject | null | undefined,
): string {
  if (action === 'run.labels') return stringifyJson({ name, labels: labels ?? {} });
  return stringifyJson({ state, priority, ...(outputs && { outputs }) });
}

import { stringifyJson } from '@longshore/common/json/json-text';
import { AuditEntryEntity, type AuditAction } from '../database/entities/audit-entry.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, type SqlExecutor } from '../database/sql/sql.js';
import type { Caller } from './access.js';

/** A change to be recorded in the audit log. */
export interface AuditedChange {
  readonly action: Exclude<AuditAction, 'run.patch'>;
  /** Id of what was changed. */
  readonly subject: string;
  readonly before: object;
  readonly after: object;
}

/** Names the author of a change. */
export type Author = Pick<Caller, 'name'>;

const ENTRIES = new EntityTable(AuditEntryEntity);
const INSERT = `insert into ${ENTRIES.name} (${ENTRIES.columns(['t', 'keyName', 'action', 'subject', 'before', 'after'])})
       values (date_trunc('milliseconds', clock_timestamp()), $1::text, $2::text, $3::text, $4::json, $5::json)`;

/** Writes an entry of the audit log. @param manager in the transaction of the change */
export async function recordChange(
  manager: SqlExecutor,
  by: Author,
  { action, subject, before, after }: AuditedChange,
): Promise<void> {
  await execute(manager, INSERT, [by.name, action, subject, stringifyJson(before), stringifyJson(after)]);
}

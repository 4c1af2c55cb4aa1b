import { stringifyJson } from '@longshore/common/json/json-text';
import { AuditEntryEntity, type AuditAction } from '../database/entities/security.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, type SqlExecutor } from '../database/sql/sql.js';
import type { Caller } from './access.js';

/** A change to be recorded in the audit log. */
export interface AuditedChange {
  readonly action: Exclude<AuditAction, 'run.patch' | 'bulk.start' | 'secret.read'>;
  /** Id of what was changed. */
  readonly subject: string;
  readonly before: object;
  readonly after: object;
}

/** The secrets of a run, given to the worker that holds it. */
interface SecretsRead {
  readonly runId: string;
  readonly attempt: number;
  readonly workerId: string;
  readonly names: readonly string[];
}

/** Names the author of a change. */
export type Author = Pick<Caller, 'name'>;

const ENTRIES = new EntityTable(AuditEntryEntity);
const INSERT = `insert into ${ENTRIES.name} (${ENTRIES.columns(['t', 'keyName', 'action', 'subject', 'before', 'after'])})
       values (date_trunc('milliseconds', clock_timestamp()), $1::text, $2::text, $3::text, $4::json, $5::json)`;

/** The index `audit_entries_secret_reads` has one entry for each attempt and API key. */
const INSERT_READ = `insert into ${ENTRIES.name} (${ENTRIES.columns(['t', 'keyName', 'action', 'runId', 'before', 'after'])})
       values (date_trunc('milliseconds', clock_timestamp()), $1::text, 'secret.read', $2::uuid, '{}', $3::json)
           on conflict (run_id, (after ->> 'attempt'), (after ->> 'key_id')) where action = 'secret.read' do nothing`;

/** Writes an entry of the audit log. @param manager in the transaction of the change */
export async function recordChange(
  manager: SqlExecutor,
  by: Author,
  { action, subject, before, after }: AuditedChange,
): Promise<void> {
  await execute(manager, INSERT, [by.name, action, subject, stringifyJson(before), stringifyJson(after)]);
}

/**
 * Writes an entry of the audit log, unless the API key has read the secrets of this attempt before.
 * @throws errors of the database: the values must not be given to the worker then
 */
export async function recordSecretsRead(
  executor: SqlExecutor,
  by: Pick<Caller, 'name' | 'keyId'>,
  { runId, attempt, workerId, names }: SecretsRead,
): Promise<void> {
  const after = { worker_id: workerId, attempt, key_id: by.keyId, secrets: names };
  await execute(executor, INSERT_READ, [by.name, runId, stringifyJson(after)]);
}

import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { AUDIT_ACTIONS, type AuditEntryEntity } from '../../database/entities/security.entity.js';
import { QueryInteger } from '../../common/http/validation/query-decorators.js';
import type { JsonObject } from '@longshore/common/json/json-value';

/** Entries of a page unless asked otherwise. */
export const DEFAULT_AUDIT_LIMIT = 100;

@ApiSchema({ name: 'AuditEntry', description: 'A recorded change, or read of secrets.' })
export class AuditEntryDto {
  /** Greater for later entries; `after` takes it. */
  @ApiProperty({ type: 'integer' })
  id: number;
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;
  /** Name of the API key. */
  key_name: string;
  /**
   * `run.patch` is a direct change of a run by an admin, `run.labels` one of its name and labels; `secret.read` says that a worker has got the values of a run's secrets,
   * once for each attempt and API key.
   */
  @ApiProperty({ enum: AUDIT_ACTIONS })
  action: string;
  /**
   * What was changed: id of a run, an API key or a worker; of a definition its id, with a version `id/version`; name of a
   * secret; of a file or a bulk operation its id; of `secret.rotate` the id of the key that encrypts since then.
   */
  subject: string;
  /** Id of the run; null for other entries. */
  @ApiProperty({ type: 'string', nullable: true })
  run_id: string | null;
  /** Of a run: state, priority, and outputs where they were replaced; of `run.labels`: name and labels. Of a definition: the fields that were replaced. */
  @ApiProperty({ type: 'object', additionalProperties: true })
  before: JsonObject;
  /** Of `bulk.start`: `action`, `filter`, `matched`, `value` and `reason`, and when it has ended `done`, `refused` and `stopped`, which are null before. Of `secret.read`: `worker_id`, `attempt`, `key_id` (id of the API key) and `secrets` (their names). */
  @ApiProperty({ type: 'object', additionalProperties: true })
  after: JsonObject;
}

export class ListAuditQueryDto {
  /** Entries of a page; 100 unless given. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 500 })
  limit?: number;

  /** Id of the last entry of the page before; the page continues with older ones. */
  @IsOptional()
  @QueryInteger({ min: 1 })
  after?: number;
}

/** The entry as admins see it. */
export function toAuditEntryDto(entry: AuditEntryEntity): AuditEntryDto {
  const { id, t, keyName, action, runId, subject, before, after } = entry;
  return {
    id: Number(id),
    t: t.toISOString(),
    key_name: keyName,
    action,
    subject: subject ?? runId ?? '',
    run_id: runId,
    before,
    after,
  };
}

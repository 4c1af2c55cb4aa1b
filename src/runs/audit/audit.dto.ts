import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import type { AuditEntryEntity } from '../../database/entities/audit-entry.entity.js';
import { QueryInteger } from '../../common/http/validation/dto-decorators.js';
import type { JsonObject } from '@longshore/common/json/json-value';

/** Entries of a page unless asked otherwise. */
export const DEFAULT_AUDIT_LIMIT = 100;

@ApiSchema({ name: 'AuditEntry', description: 'A direct change of a run by an admin.' })
export class AuditEntryDto {
  /** Greater for later entries; `after` takes it. */
  @ApiProperty({ type: 'integer' })
  id: number;
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;
  /** Name of the API key. */
  key_name: string;
  run_id: string;
  /** State, priority, and outputs where they were replaced. */
  @ApiProperty({ type: 'object', additionalProperties: true })
  before: JsonObject;
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
  const { id, t, keyName, runId, before, after } = entry;
  return { id: Number(id), t: t.toISOString(), key_name: keyName, run_id: runId, before, after };
}

import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '../../json/json-value.js';

/** A row of `audit_entries`: a direct mutation of a run by an admin. */
@Entity('audit_entries')
export class AuditEntryEntity {
  /** Decimal, as the driver gives a bigint. */
  @PrimaryColumn('bigint') id: string;
  @Column('timestamptz') t: Date;
  @Column('text', { name: 'key_name' }) keyName: string;
  @Column('uuid', { name: 'run_id' }) runId: string;
  @Column('json') before: JsonObject;
  @Column('json') after: JsonObject;
}

import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';

/** A row of `audit_entries`: a direct mutation of a run by an admin. */
@Entity('audit_entries')
export class AuditEntryEntity {
  /** A bigint as decimal string. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'audit_entries_pkey',
  })
  id: string;
  @Column({ type: 'timestamptz', precision: 3 }) t: Date;
  @Column('text', { name: 'key_name' }) keyName: string;
  @Column('uuid', { name: 'run_id' }) runId: string;
  @Column('json') before: JsonObject;
  @Column('json') after: JsonObject;
}

import { Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';

/** What an entry of the audit log records. */
export const AUDIT_ACTIONS = [
  'run.patch',
  'run.labels',
  'bulk.start',
  'bulk.stop',
  'key.create',
  'key.revoke',
  'worker.drain',
  'worker.resume',
  'definition.create',
  'definition.replace',
  'definition.delete',
  'secret.create',
  'secret.replace',
  'secret.delete',
  'secret.rotate',
  'secret.read',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** A row of `audit_entries`: a direct change of a run, a bulk operation, or a change of an API key, a worker, a definition or a secret, or a read of secrets. */
@Entity('audit_entries')
@Index('audit_entries_secret_reads', { synchronize: false })
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
  @Column('text') action: AuditAction;
  @Column('uuid', { name: 'run_id', nullable: true }) runId: string | null;
  /** Id of what was changed; null for a run. */
  @Column('text', { nullable: true }) subject: string | null;
  @Column('json') before: JsonObject;
  @Column('json') after: JsonObject;
}

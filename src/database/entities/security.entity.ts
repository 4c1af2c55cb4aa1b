import { Check, Column, Entity, Index, PrimaryColumn, Unique, PrimaryGeneratedColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';

/** A row of `api_keys`. The key itself is not stored: `hash` is its SHA-256. */
@Entity('api_keys')
@Check('api_keys_max_file_bytes_check', 'max_file_bytes >= 0')
@Check('api_keys_scopes_check', 'cardinality(scopes) > 0')
@Check(
  'api_keys_worker_ids_check',
  "worker_ids is null or (cardinality(worker_ids) > 0 and scopes = array['worker'])",
)
@Check(
  'api_keys_worker_tags_check',
  "(worker_tags is null and worker_capabilities is null) or scopes = array['worker']",
)
@Unique('api_keys_hash_key', ['hash'])
@Index('api_keys_by_created', { synchronize: false })
export class ApiKeyEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'api_keys_pkey' }) id: string;
  @Column('text') name: string;
  @Column('text', { array: true }) scopes: string[];
  /** The workers to which the key is bound: ids, and prefixes that end in `*`; null: it is not bound. */
  @Column('text', { name: 'worker_ids', array: true, nullable: true }) workerIds: string[] | null;
  /** The tags that a worker of the key may have; null: any. */
  @Column('text', { name: 'worker_tags', array: true, nullable: true }) workerTags: string[] | null;
  /** The capabilities that a worker of the key may have; null: any. */
  @Column('text', { name: 'worker_capabilities', array: true, nullable: true })
  workerCapabilities: string[] | null;
  /** Bytes that the files of the key may have; null: any number. A bigint as decimal string. */
  @Column('bigint', { name: 'max_file_bytes', nullable: true }) maxFileBytes: string | null;
  /** Names of the stores that the key may use; null: all. */
  @Column('text', { array: true, nullable: true }) stores: string[] | null;
  /** The readable beginning of the key. */
  @Column('text') prefix: string;
  /** Selected only on request. */
  @Column('text', { select: false }) hash: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'expires_at', nullable: true }) expiresAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'last_used_at', nullable: true })
  lastUsedAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'revoked_at', nullable: true }) revokedAt: Date | null;
}

/** What a secret's value is: any text, the login of a container registry, or environment variables with their names. */
export const SECRET_KINDS = ['opaque', 'registry', 'map'] as const;
export type SecretKind = (typeof SECRET_KINDS)[number];

/** A row of `secrets`. */
@Entity('secrets')
@Check('secrets_kind_check', "kind in ('opaque', 'registry', 'map')")
export class SecretEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'secrets_pkey' }) name: string;
  @Column('text') kind: SecretKind;
  /** The encrypted value in the format of `SecretCipher`; selected only on request. */
  @Column('bytea', { select: false }) ciphertext: Buffer;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
}

/** What an entry of the audit log records. */
export const AUDIT_ACTIONS = [
  'run.patch',
  'run.labels',
  'run.kill',
  'bulk.start',
  'bulk.stop',
  'key.create',
  'key.update',
  'key.revoke',
  'worker.drain',
  'worker.resume',
  'definition.create',
  'definition.replace',
  'definition.delete',
  'group.cancel',
  'group.retry',
  'schedule.create',
  'schedule.replace',
  'schedule.delete',
  'schedule.pause',
  'schedule.resume',
  'schedule.trigger',
  'schedule.backfill',
  'pause.create',
  'pause.replace',
  'pause.delete',
  'secret.create',
  'secret.replace',
  'secret.delete',
  'secret.rotate',
  'secret.read',
  'file.delete',
  'webhook.create',
  'webhook.update',
  'webhook.delete',
  'webhook.rotate',
  'webhook.replay',
  'webhook.redeliver',
  'webhook.disable',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** A row of `audit_entries`: a direct change of a run, a bulk operation, or a change of an API key, a worker, a definition, a schedule, a pause, a secret, a file or a webhook, or a read of secrets. */
@Entity('audit_entries')
@Index('audit_entries_secret_reads', { synchronize: false })
@Index('audit_entries_bulk_operations', ['subject'], { unique: true, where: "(action = 'bulk.start'::text)" })
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

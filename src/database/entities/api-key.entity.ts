import { Check, Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

/** A row of `api_keys`. The key itself is not stored: `hash` is its SHA-256. */
@Entity('api_keys')
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

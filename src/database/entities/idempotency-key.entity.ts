import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `idempotency_keys`: the result of a request that carried a key. */
@Entity('idempotency_keys')
@Index('idempotency_keys_by_created', ['createdAt'])
export class IdempotencyKeyEntity {
  /** Digest of the key and of what it applies to. */
  @PrimaryColumn('text', { primaryKeyConstraintName: 'idempotency_keys_pkey' }) scope: string;
  @Column('text', { name: 'request_hash' }) requestHash: string;
  /** The run that the request created or changed, or the bulk operation that it started; null for a claim. */
  @Column('uuid', { name: 'run_id', nullable: true }) runId: string | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  /** Runs that a claim returned; null for other requests. */
  @Column('uuid', { array: true, nullable: true }) claimed: string[] | null;
}

import { Column, Entity, Index, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

/** A row of `restricted_queue`: a pending run with requirements on its worker or with a concurrency key. */
@Entity('restricted_queue')
@Index('restricted_queue_admitted', ['concurrencyKey'], {
  where: '(is_admitted AND (concurrency_key IS NOT NULL))',
})
@Index('restricted_queue_by_key', { synchronize: false })
@Index('restricted_queue_claimable', { synchronize: false })
@Index('restricted_queue_order', { synchronize: false })
@Index('restricted_queue_passed_over', { synchronize: false })
@Index('restricted_queue_reserved', ['reservedFor'], { where: '(reserved_for IS NOT NULL)' })
export class RestrictedEntryEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'restricted_queue_pkey' }) runId: string;
  @Column('integer') priority: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('integer') cpu: number;
  /** See the columns of `run_queue`. */
  @Column({ type: 'timestamptz', precision: 3, name: 'passed_over_at', nullable: true })
  passedOverAt: Date | null;
  @Column('text', { name: 'reserved_for', nullable: true }) reservedFor: string | null;
  /** Id of the run's lane. */
  @Column('uuid') lane: string;
  @Column('text', { name: 'concurrency_key', nullable: true }) concurrencyKey: string | null;
  @Column('integer', { name: 'concurrency_limit', nullable: true }) concurrencyLimit: number | null;
  /** A hash, the same for runs that the same claims may get: equal limit, lane and resources. */
  @Column('bigint') alike: string;
  /** Whether claims read the row: it has no key, or it is among the first of its kind that its key has room for. */
  @Column('boolean', { name: 'is_admitted' }) isAdmitted: boolean;
}

/** A row of `lanes`: pending runs that the same workers may get. */
@Entity('lanes')
export class LaneEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'lanes_pkey' }) id: string;
  /** What a worker must meet: `tag:NAME`, `capability:NAME`, `not-worker:ID`, `concurrency-key`; not empty. */
  @Column('text', { array: true }) required: string[];
}

/** A row of `concurrency_keys`. */
@Entity('concurrency_keys')
export class ConcurrencyKeyEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'concurrency_keys_pkey' }) key: string;
  /** Runs with the key that are assigned or running, and its slots; changes in the same transaction as these. */
  @Column('integer') executing: number;
}

/** A row of `concurrency_slots`: a container that may still be executed after its run was taken from its worker. */
@Entity('concurrency_slots')
export class ConcurrencySlotEntity {
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'concurrency_slots_pkey',
  })
  id: string;
  @Column('uuid', { name: 'run_id' }) runId: string;
  @Column('text') key: string;
  @Column('text', { name: 'worker_id' }) workerId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'assigned_at' }) assignedAt: Date;
  /** From then on the slot is free, whatever the worker says. */
  @Column({ type: 'timestamptz', precision: 3, name: 'ends_at' }) endsAt: Date;
}

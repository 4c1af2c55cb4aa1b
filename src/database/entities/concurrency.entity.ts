import { Column, Entity, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

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

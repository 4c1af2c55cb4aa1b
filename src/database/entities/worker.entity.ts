import { Check, Column, Entity, PrimaryColumn } from 'typeorm';
import type { JsonValue } from '@longshore/common/json/json-value';

/** A row of `worker_drains`: a worker that must not claim. */
@Entity('worker_drains')
export class WorkerDrainEntity {
  @PrimaryColumn('text', { name: 'worker_id', primaryKeyConstraintName: 'worker_drains_pkey' })
  workerId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'drained_at' }) drainedAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'seen_at', default: () => 'now()' }) seenAt: Date;
}

/** A row of `worker_absences`: a worker that keeps its runs without heartbeats. */
@Entity('worker_absences')
export class WorkerAbsenceEntity {
  @PrimaryColumn('text', { name: 'worker_id', primaryKeyConstraintName: 'worker_absences_pkey' })
  workerId: string;
  @Column({ type: 'timestamptz', precision: 3 }) until: Date;
}

/** A row of the unlogged table `worker_pool`: the times of a registered worker. */
@Entity('worker_pool')
export class WorkerPoolEntity {
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'last_heartbeat_at' }) lastHeartbeatAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'last_report_at', nullable: true })
  lastReportAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'previous_report_at', nullable: true })
  previousReportAt: Date | null;
  /** The API key of the last heartbeat. */
  @Column('uuid', { name: 'key_id' }) keyId: string;
  /** Whether a heartbeat has reported a run. */
  @Column('boolean', { name: 'had_run' }) hadRun: boolean;
  @PrimaryColumn('text', {
    name: 'worker_id',
    collation: 'C',
    primaryKeyConstraintName: 'worker_pool_pkey',
  })
  workerId: string;
}

/** A row of the unlogged table `worker_descriptions`: the content of a worker's heartbeats. */
@Entity('worker_descriptions')
export class WorkerDescriptionEntity {
  @Column('uuid', { name: 'description_hash' }) descriptionHash: string;
  @Column('uuid', { name: 'running_hash', nullable: true }) runningHash: string | null;
  @PrimaryColumn('text', {
    name: 'worker_id',
    collation: 'C',
    primaryKeyConstraintName: 'worker_descriptions_pkey',
  })
  workerId: string;
  @Column('json') description: JsonValue;
  @Column('jsonb', { nullable: true }) departed: Record<string, number> | null;
  @Column('jsonb', { name: 'running_ids', nullable: true }) runningIds: string[] | null;
  @Column('json', { name: 'running_ops', nullable: true }) runningOps: JsonValue | null;
}

/** The row of the unlogged table `worker_pool_epoch`: when the pool was last empty. */
@Entity('worker_pool_epoch')
@Check('worker_pool_epoch_only_row_check', 'only_row')
export class WorkerPoolEpochEntity {
  @PrimaryColumn('boolean', {
    name: 'only_row',
    default: true,
    primaryKeyConstraintName: 'worker_pool_epoch_pkey',
  })
  onlyRow: boolean;
  @Column({ type: 'timestamptz', precision: 3, name: 'started_at' }) startedAt: Date;
}

import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `queue`: a pending run that may be claimed. */
@Entity('queue')
@Check('queue_admission_check', 'is_admitted or concurrency_key is not null')
@Check('queue_alike_check', '(concurrency_key is null) = (alike is null)')
@Check('queue_limit_check', '(concurrency_key is null) = (concurrency_limit is null)')
@Index('queue_admitted', ['concurrencyKey'], { where: '(is_admitted AND (concurrency_key IS NOT NULL))' })
@Index('queue_by_key', { synchronize: false })
@Index('queue_order', { synchronize: false })
@Index('queue_passed_over', { synchronize: false })
@Index('queue_reserved', ['reservedFor'], { where: '(reserved_for IS NOT NULL)' })
export class QueueEntryEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'queue_pkey' }) runId: string;
  /** Id of the run's lane; the nil UUID: every worker may get the run at any time. */
  @Column('uuid', { default: '00000000-0000-0000-0000-000000000000' }) lane: string;
  @Column('integer') priority: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  /** Thousandths of a core. A bigint as decimal string. */
  @Column('bigint', { name: 'cpu_millis' }) cpuMillis: string;
  /** GPUs that no other run may use. */
  @Column('smallint', { default: 0 }) gpus: number;
  /** Whether claims read the row: it has no key, or it is among the first of its kind that its key has room for. */
  @Column('boolean', { name: 'is_admitted', default: true }) isAdmitted: boolean;
  /** Since when later runs have been claimed before this one; null: never. */
  @Column({ type: 'timestamptz', precision: 3, name: 'passed_over_at', nullable: true })
  passedOverAt: Date | null;
  /** Worker that is kept free for the run; null: none. */
  @Column('text', { name: 'reserved_for', nullable: true }) reservedFor: string | null;
  @Column('text', { name: 'concurrency_key', nullable: true }) concurrencyKey: string | null;
  @Column('integer', { name: 'concurrency_limit', nullable: true }) concurrencyLimit: number | null;
  /** Of a run with a key, a hash that is the same for runs that the same claims may get: equal limit, lane and resources. */
  @Column('bigint', { nullable: true }) alike: string | null;
}

/** A row of `lanes`: pending runs that the same workers may get. */
@Entity('lanes')
export class LaneEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'lanes_pkey' }) id: string;
  /** That of its runs: of the tags, also of GPUs, and capabilities alone. */
  @Column('uuid', { name: 'requirement_id', nullable: true }) requirementId: string | null;
  /** What a worker must meet: `tag:NAME`, `capability:NAME`, `gpu:NAME`, `not-worker:ID`, `concurrency-key`; not empty. */
  @Column('text', { array: true }) required: string[];
}

/** A row of `run_timers`: the time at which a timeout or the end of a back-off applies to a run. */
@Entity('run_timers')
@Index('run_timers_by_time', ['dueAt'])
export class RunTimerEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_timers_pkey' }) runId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at' }) dueAt: Date;
}

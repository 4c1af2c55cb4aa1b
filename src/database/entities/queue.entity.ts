import { Check, Column, Entity, Index, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

/** A row of `queue`: a pending run that may be claimed. */
@Entity('queue')
@Check(
  'queue_admission_check',
  'case when is_paused then not is_admitted else is_admitted or concurrency_key is not null end',
)
@Check('queue_alike_check', '(concurrency_key is null) = (alike is null)')
@Check('queue_limit_check', '(concurrency_key is null) = (concurrency_limit is null)')
@Index('queue_admitted', ['concurrencyKey'], { where: '(is_admitted AND (concurrency_key IS NOT NULL))' })
@Index('queue_by_key', { synchronize: false })
@Index('queue_order', { synchronize: false })
@Index('queue_passed_over', { synchronize: false })
@Index('queue_paused', ['runId'], { where: 'is_paused' })
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
  /** Whether claims read the row: it is not paused, and it has no key or is among the first of its kind that its key has room for. */
  @Column('boolean', { name: 'is_admitted', default: true }) isAdmitted: boolean;
  /** Whether a pause holds the run. */
  @Column('boolean', { name: 'is_paused', default: false }) isPaused: boolean;
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

/** A row of `pauses`: pending runs that match all lists are not assigned. A list that is null holds for every run. */
@Entity('pauses')
export class PauseEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'pauses_pkey' }) name: string;
  @Column('text') reason: string;
  /** Ids of definitions. */
  @Column('text', { array: true, nullable: true }) definitions: string[] | null;
  /** `key=value` or `key`. */
  @Column('text', { array: true, nullable: true }) labels: string[] | null;
  /** Tags of selectors. */
  @Column('text', { array: true, nullable: true }) selector: string[] | null;
  /** Ids of schedules. */
  @Column('text', { array: true, nullable: true }) schedules: string[] | null;
  /** Ids of the API keys that created the runs. */
  @Column('uuid', { array: true, nullable: true }) creators: string[] | null;
  /** When it ends; null: when it is removed. */
  @Column({ type: 'timestamptz', precision: 3, name: 'until_at', nullable: true }) untilAt: Date | null;
  /** Whether the rows of `queue` follow its last change. */
  @Column('boolean', { name: 'is_applied', default: false }) isApplied: boolean;
  /** The API key that set it last. */
  @Column('uuid', { name: 'updated_by' }) updatedBy: string;
  @Column('text', { name: 'updated_by_name' }) updatedByName: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
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

/** A row of `executions`: a run that is ASSIGNED or RUNNING. */
@Entity('executions')
@Index('executions_by_key', ['concurrencyKey'], { where: '(concurrency_key IS NOT NULL)' })
export class ExecutionEntity {
  /** Empty for a run whose state an admin set. */
  @PrimaryColumn('text', { name: 'worker_id', primaryKeyConstraintName: 'executions_pkey' }) workerId: string;
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'executions_pkey' }) runId: string;
  /** When the run was created. */
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'assigned_at', nullable: true }) assignedAt: Date | null;
  @Column('integer') attempt: number;
  /** Thousandths of a core. A bigint as decimal string. */
  @Column('bigint', { name: 'cpu_millis' }) cpuMillis: string;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  /** GPUs that no other run may use. */
  @Column('smallint', { default: 0 }) gpus: number;
  @Column('integer', { name: 'gpu_id', nullable: true }) gpuId: number | null;
  @Column('text', { name: 'gpu_ids', nullable: true }) gpuIds: string | null;
  @Column('uuid', { name: 'requirement_id', nullable: true }) requirementId: string | null;
  @Column('text', { name: 'concurrency_key', nullable: true }) concurrencyKey: string | null;
}

/** A row of `concurrency_keys`. */
@Entity('concurrency_keys')
export class ConcurrencyKeyEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'concurrency_keys_pkey' }) key: string;
  /** Runs with the key that are assigned or running, and its slots; changes in the same transaction as these. */
  @Column('integer') executing: number;
}

/** A row of `concurrency_slots`: a program that may still be executed after its run was taken from its worker. */
@Entity('concurrency_slots')
@Index('concurrency_slots_by_worker', ['workerId'])
@Index('concurrency_slots_by_run', ['runId'])
export class ConcurrencySlotEntity {
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'concurrency_slots_pkey',
  })
  id: string;
  @Column('uuid', { name: 'run_id' }) runId: string;
  @Column('integer') attempt: number;
  /** Null: the run has no concurrency key. */
  @Column('text', { nullable: true }) key: string | null;
  @Column('text', { name: 'worker_id' }) workerId: string;
  /** What the program holds, as in `executions`. */
  @Column('bigint', { name: 'cpu_millis' }) cpuMillis: string;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('smallint') gpus: number;
  @Column('text', { name: 'gpu_ids', nullable: true }) gpuIds: string | null;
  /** Whether an admin wants it to be ended at once. */
  @Column('boolean', { name: 'is_killed', default: false }) isKilled: boolean;
  @Column({ type: 'timestamptz', precision: 3, name: 'assigned_at' }) assignedAt: Date;
  /** From then on the slot is free, whatever the worker says. */
  @Column({ type: 'timestamptz', precision: 3, name: 'ends_at' }) endsAt: Date;
}

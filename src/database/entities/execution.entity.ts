import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

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

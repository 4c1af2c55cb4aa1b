import { Check, Column, Entity, ForeignKey, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';
import { RunEntity } from './run.entity.js';

/** A row of `attempts`: an attempt that ended and was followed by another. */
@Entity('attempts')
@Check('attempts_check', 'end_event >= first_event')
@Check('attempts_progress_check', 'progress between 0 and 100')
@Check(
  'attempts_state_check',
  "state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')",
)
export class AttemptEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'attempts_pkey' })
  @ForeignKey(() => RunEntity, { name: 'attempts_run_id_fkey', onDelete: 'CASCADE' })
  runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'attempts_pkey' }) attempt: number;
  @Column('uuid') id: string;
  @Column('text') state: string;
  @Column('smallint') progress: number;
  /** null: the run's template. */
  @Column('json', { nullable: true }) outputs: JsonObject | null;
  /** Bytes of the outputs as JSON. */
  @Column('integer') size: number;
  /** null: that of the run, which never grows. */
  @Column('integer', { name: 'ram_mb', nullable: true }) ramMb: number | null;
  @Column('integer', { name: 'gpu_id', nullable: true }) gpuId: number | null;
  @Column('text', { name: 'gpu_ids', nullable: true }) gpuIds: string | null;
  @Column('text', { name: 'worker_id', nullable: true }) workerId: string | null;
  @Column('text', { name: 'error_message', nullable: true }) errorMessage: string | null;
  /** See the columns of `runs`. */
  @Column('text', { nullable: true }) cause: string | null;
  @Column('smallint', { name: 'exit_code', nullable: true }) exitCode: number | null;
  @Column('text', { name: 'cancel_reason', nullable: true }) cancelReason: string | null;
  @Column('integer', { name: 'first_event' }) firstEvent: number;
  /** Index after the attempt's last timeline entry. */
  @Column('integer', { name: 'end_event' }) endEvent: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'queued_at' }) queuedAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'assigned_at', nullable: true }) assignedAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'started_at', nullable: true }) startedAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'finished_at' }) finishedAt: Date;
}

import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '../../json/json-value.js';

/** A row of `attempts`: an attempt that ended and was followed by another. */
@Entity('attempts')
export class AttemptEntity {
  @PrimaryColumn('uuid', { name: 'run_id' }) runId: string;
  @PrimaryColumn('integer') attempt: number;
  @Column('uuid') id: string;
  @Column('text') state: string;
  @Column('smallint') progress: number;
  /** null: the run's template. */
  @Column('json', { nullable: true }) outputs: JsonObject | null;
  @Column('integer', { name: 'gpu_id', nullable: true }) gpuId: number | null;
  @Column('text', { name: 'worker_id', nullable: true }) workerId: string | null;
  @Column('text', { name: 'error_message', nullable: true }) errorMessage: string | null;
  @Column('integer', { name: 'first_event' }) firstEvent: number;
  /** Index after the attempt's last timeline entry. */
  @Column('integer', { name: 'end_event' }) endEvent: number;
  @Column('timestamptz', { name: 'queued_at' }) queuedAt: Date;
  @Column('timestamptz', { name: 'assigned_at', nullable: true }) assignedAt: Date | null;
  @Column('timestamptz', { name: 'started_at', nullable: true }) startedAt: Date | null;
  @Column('timestamptz', { name: 'finished_at' }) finishedAt: Date;
}

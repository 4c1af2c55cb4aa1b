import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '../../json/json-value.js';

/** A row of `runs`: the run together with its current attempt. */
@Entity('runs')
export class RunEntity {
  @PrimaryColumn('uuid') id: string;
  @Column('text') state: string;
  @Column('integer') priority: number;
  @Column('smallint') progress: number;
  @Column('integer') attempt: number;
  @Column('uuid', { name: 'attempt_id' }) attemptId: string;
  @Column('integer', { name: 'first_event' }) firstEvent: number;
  @Column('integer', { name: 'event_count' }) eventCount: number;
  @Column('integer') failures: number;
  @Column('integer') reclaims: number;
  @Column('integer', { name: 'max_attempts' }) maxAttempts: number;
  @Column('integer', { name: 'backoff_s' }) backoffS: number;
  /** 0: no bound of its own. */
  @Column('integer', { name: 'max_backoff_s' }) maxBackoffS: number;
  @Column('integer', { name: 'start_within_s', nullable: true }) startWithinS: number | null;
  @Column('integer', { name: 'attempt_timeout_s', nullable: true }) attemptTimeoutS: number | null;
  @Column('text') image: string;
  @Column('json') inputs: JsonObject;
  @Column('json', { name: 'outputs_template' }) outputsTemplate: JsonObject;
  /** null: the template. */
  @Column('json', { nullable: true }) outputs: JsonObject | null;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('integer') cpu: number;
  @Column('integer', { name: 'gpu_id', nullable: true }) gpuId: number | null;
  @Column('text', { nullable: true }) topic: string | null;
  @Column('json', { nullable: true }) attributes: Record<string, string> | null;
  @Column('text', { name: 'definition_id', nullable: true }) definitionId: string | null;
  @Column('text', { name: 'definition_version', nullable: true }) definitionVersion: string | null;
  /** As it travels in the header of this name; null: nobody traces the run. */
  @Column('text', { nullable: true }) traceparent: string | null;
  @Column('text', { nullable: true }) tracestate: string | null;
  @Column('text', { name: 'worker_id', nullable: true }) workerId: string | null;
  @Column('text', { name: 'error_message', nullable: true }) errorMessage: string | null;
  @Column('timestamptz', { name: 'queued_at' }) queuedAt: Date;
  /** End of the back-off of a pending run; null: it is not in back-off. */
  @Column('timestamptz', { name: 'not_before', nullable: true }) notBefore: Date | null;
  @Column('timestamptz', { name: 'assigned_at', nullable: true }) assignedAt: Date | null;
  @Column('timestamptz', { name: 'started_at', nullable: true }) startedAt: Date | null;
  @Column('timestamptz', { name: 'finished_at', nullable: true }) finishedAt: Date | null;
  @Column('timestamptz', { name: 'created_at' }) createdAt: Date;
  @Column('timestamptz', { name: 'updated_at' }) updatedAt: Date;
}

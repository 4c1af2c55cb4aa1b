import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `run_logs`: how far the log of an attempt has been written. Each bigint is a decimal string. */
@Entity('run_logs')
@Check('run_logs_attempt_check', 'attempt between 1 and 1000')
@Check('run_logs_next_chunk_check', 'next_chunk >= 0')
@Check('run_logs_next_line_check', 'next_line >= 0')
@Check('run_logs_printed_bytes_check', 'printed_bytes >= 0')
@Check('run_logs_tail', '(tail_line is null) = (tail_weight is null)')
@Check('run_logs_unknown_gaps_check', 'unknown_gaps >= 0')
@Check('run_logs_weight_check', 'weight >= 0')
export class RunLogEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_logs_pkey' }) runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_logs_pkey' }) attempt: number;
  @Column('integer', { name: 'next_chunk' }) nextChunk: number;
  @Column('bigint', { name: 'next_line' }) nextLine: string;
  @Column('bigint', { name: 'printed_bytes' }) printedBytes: string;
  @Column('bigint', { name: 'unknown_gaps' }) unknownGaps: string;
  @Column('bigint') weight: string;
  @Column('bigint', { name: 'tail_line', nullable: true }) tailLine: string | null;
  @Column('bigint', { name: 'tail_weight', nullable: true }) tailWeight: string | null;
  @Column('boolean', { name: 'is_complete' }) isComplete: boolean;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
  /** The worker that began the log. */
  @Column('text', { name: 'worker_id' }) workerId: string;
  /** As the newest chunk that had one gave it. */
  @Column('text', { nullable: true }) cursor: string | null;
}

/** A row of `run_log_rows`: compressed lines of a log. Each bigint is a decimal string. */
@Entity('run_log_rows')
@Check('run_log_rows_first_line_check', 'first_line >= 0')
@Check('run_log_rows_line_count_check', 'line_count >= 0')
@Check('run_log_rows_text_bytes_check', 'text_bytes >= 0')
export class RunLogRowEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_log_rows_pkey' }) runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_log_rows_pkey' }) attempt: number;
  @PrimaryColumn('bigint', { name: 'first_line', primaryKeyConstraintName: 'run_log_rows_pkey' })
  firstLine: string;
  @Column('integer', { name: 'line_count' }) lineCount: number;
  @Column('bigint', { name: 'text_bytes' }) textBytes: string;
  @Column('bigint', { name: 'bytes_before' }) bytesBefore: string;
  @Column('bigint', { name: 'unknown_gaps_before' }) unknownGapsBefore: string;
  @Column('bigint', { name: 'weight_before' }) weightBefore: string;
  @Column('bytea') lines: Buffer;
}

/** A row of `run_log_removals`: a run that was deleted and whose logs are to be removed. A trigger writes it. */
@Entity('run_log_removals')
@Index('run_log_removals_by_time', ['removedAt', 'runId'])
export class RunLogRemovalEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_log_removals_pkey' }) runId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'removed_at' }) removedAt: Date;
}

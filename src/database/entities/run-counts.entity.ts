import { Column, Entity, PrimaryColumn } from 'typeorm';

/**
 * A row of `run_counts`: changes of the counts of runs that one connection committed in one second, or a sum of such
 * rows. Each count is a bigint as decimal string.
 */
@Entity('run_counts')
export class RunCountsEntity {
  @PrimaryColumn('timestamptz', { primaryKeyConstraintName: 'run_counts_pkey' }) since: Date;
  /** Process id of the connection's backend; 0 for sums. */
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_counts_pkey' }) slot: number;
  @Column('bigint') created: string;
  @Column('bigint', { name: 'ended_cancelled' }) endedCancelled: string;
  @Column('bigint', { name: 'ended_completed' }) endedCompleted: string;
  @Column('bigint', { name: 'ended_failed' }) endedFailed: string;
  @Column('bigint') pending: string;
  @Column('bigint') assigned: string;
  @Column('bigint') running: string;
  @Column('bigint') cancelled: string;
  @Column('bigint') completed: string;
  @Column('bigint') failed: string;
}

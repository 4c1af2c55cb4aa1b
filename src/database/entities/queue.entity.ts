import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `run_queue`: a pending run that may be claimed. */
@Entity('run_queue')
@Index('run_queue_order', { synchronize: false })
@Index('run_queue_passed_over', { synchronize: false })
@Index('run_queue_reserved', ['reservedFor'], { where: '(reserved_for IS NOT NULL)' })
export class QueueEntryEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_queue_pkey' }) runId: string;
  @Column('integer') priority: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column('integer', { name: 'ram_mb' }) ramMb: number;
  @Column('integer', { name: 'vram_mb' }) vramMb: number;
  @Column('integer') cpu: number;
  /** Since when later runs have been claimed before this one; null: never. */
  @Column({ type: 'timestamptz', precision: 3, name: 'passed_over_at', nullable: true })
  passedOverAt: Date | null;
  /** Worker that is kept free for the run; null: none. */
  @Column('text', { name: 'reserved_for', nullable: true }) reservedFor: string | null;
}

/** A row of `run_timers`: the time at which a timeout or the end of a back-off applies to a run. */
@Entity('run_timers')
@Index('run_timers_by_time', ['dueAt'])
export class RunTimerEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_timers_pkey' }) runId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at' }) dueAt: Date;
}

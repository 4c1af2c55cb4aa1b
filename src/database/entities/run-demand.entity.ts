import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `run_demand`: pending runs of one shape, without those in `run_demand_changes`. */
@Entity('run_demand')
@Index('run_demand_largest', { synchronize: false })
export class RunDemandEntity {
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_demand_pkey' }) cpu: number;
  @PrimaryColumn('integer', { name: 'ram_mb', primaryKeyConstraintName: 'run_demand_pkey' }) ramMb: number;
  @PrimaryColumn('integer', { name: 'vram_mb', primaryKeyConstraintName: 'run_demand_pkey' }) vramMb: number;
  /** Runs in the queue. A bigint as decimal string, like every count here. */
  @Column('bigint') ready: string;
  /** Runs in back-off. */
  @Column('bigint') waiting: string;
}

/** A row of `run_demand_changes`: changes of the counts of one shape that one connection committed in one second. */
@Entity('run_demand_changes')
export class RunDemandChangeEntity {
  @PrimaryColumn('timestamptz', { primaryKeyConstraintName: 'run_demand_changes_pkey' }) since: Date;
  /** Process id of the connection's backend. */
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_demand_changes_pkey' }) slot: number;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'run_demand_changes_pkey' }) cpu: number;
  @PrimaryColumn('integer', { name: 'ram_mb', primaryKeyConstraintName: 'run_demand_changes_pkey' })
  ramMb: number;
  @PrimaryColumn('integer', { name: 'vram_mb', primaryKeyConstraintName: 'run_demand_changes_pkey' })
  vramMb: number;
  @Column('bigint') ready: string;
  @Column('bigint') waiting: string;
}

/** The row of `run_demand_sums`: the totals of `run_demand`. */
@Entity('run_demand_sums')
@Check('run_demand_sums_only_row_check', 'only_row')
export class RunDemandSumsEntity {
  @PrimaryColumn('boolean', {
    name: 'only_row',
    default: true,
    primaryKeyConstraintName: 'run_demand_sums_pkey',
  })
  onlyRow: boolean;
  @Column('bigint', { name: 'ready_runs' }) readyRuns: string;
  @Column('bigint', { name: 'ready_cpu' }) readyCpu: string;
  @Column('bigint', { name: 'ready_ram_mb' }) readyRamMb: string;
  @Column('bigint', { name: 'ready_vram_mb' }) readyVramMb: string;
  @Column('bigint', { name: 'ready_gpus' }) readyGpus: string;
  @Column('bigint', { name: 'waiting_runs' }) waitingRuns: string;
  @Column('bigint', { name: 'waiting_cpu' }) waitingCpu: string;
  @Column('bigint', { name: 'waiting_ram_mb' }) waitingRamMb: string;
  @Column('bigint', { name: 'waiting_vram_mb' }) waitingVramMb: string;
  @Column('bigint', { name: 'waiting_gpus' }) waitingGpus: string;
}

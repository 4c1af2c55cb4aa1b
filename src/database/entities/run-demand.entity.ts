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

/** What the rows of the tables below count. */
abstract class RequirementDemandColumns {
  /** What a worker must have: `tag:NAME` and `capability:NAME`. */
  @Column('text', { array: true }) required: string[];
  /** Ready runs that claims do not read, because runs before them take what the limit of their key leaves. */
  @Column('bigint', { name: 'held_back', default: 0 }) heldBack: string;
  @Column('bigint', { name: 'ready_runs', default: 0 }) readyRuns: string;
  @Column('bigint', { name: 'ready_cpu', default: 0 }) readyCpu: string;
  @Column('bigint', { name: 'ready_ram_mb', default: 0 }) readyRamMb: string;
  @Column('bigint', { name: 'ready_vram_mb', default: 0 }) readyVramMb: string;
  @Column('bigint', { name: 'ready_gpus', default: 0 }) readyGpus: string;
  @Column('bigint', { name: 'waiting_runs', default: 0 }) waitingRuns: string;
  @Column('bigint', { name: 'waiting_cpu', default: 0 }) waitingCpu: string;
  @Column('bigint', { name: 'waiting_ram_mb', default: 0 }) waitingRamMb: string;
  @Column('bigint', { name: 'waiting_vram_mb', default: 0 }) waitingVramMb: string;
  @Column('bigint', { name: 'waiting_gpus', default: 0 }) waitingGpus: string;
}

/**
 * A row of `requirement_demand`: pending runs with the same requirements, without those in `requirement_demand_changes`. The
 * nil UUID: runs with a concurrency key and without requirements. The largest UUID: the sums of all rows.
 */
@Entity('requirement_demand')
@Index('requirement_demand_largest', { synchronize: false })
export class RequirementDemandEntity extends RequirementDemandColumns {
  @PrimaryColumn('uuid', { name: 'requirement_id', primaryKeyConstraintName: 'requirement_demand_pkey' })
  requirementId: string;
}

/** A row of `requirement_demand_changes`: changes of these counts that one connection committed in one second. */
@Entity('requirement_demand_changes')
export class RequirementDemandChangeEntity extends RequirementDemandColumns {
  @PrimaryColumn('timestamptz', { primaryKeyConstraintName: 'requirement_demand_changes_pkey' }) since: Date;
  /** Process id of the connection's backend. */
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'requirement_demand_changes_pkey' }) slot: number;
  @PrimaryColumn('uuid', {
    name: 'requirement_id',
    primaryKeyConstraintName: 'requirement_demand_changes_pkey',
  })
  requirementId: string;
}

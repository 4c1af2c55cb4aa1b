import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `run_terms`: a tag of a run's selector or a label, with what lists need of the run. Triggers on `runs` keep it. */
@Entity('run_terms')
@Index('run_terms_in_lists', { synchronize: false })
export class RunTermEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_terms_pkey' }) runId: string;
  /** `selector:TAG`, `label:KEY` or `label:KEY=VALUE`. */
  @PrimaryColumn('text', { primaryKeyConstraintName: 'run_terms_pkey' }) term: string;
  @Column('text') outcome: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
}

import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A row of `run_tags`: a tag of a run's selector, with what lists need of the run. Triggers on `runs` keep it. */
@Entity('run_tags')
@Index('run_tags_in_lists', { synchronize: false })
export class RunTagEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'run_tags_pkey' }) runId: string;
  @PrimaryColumn('text', { primaryKeyConstraintName: 'run_tags_pkey' }) tag: string;
  @Column('text') outcome: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
}

import { Check, Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

/** `missing`: the store did not have it when the end of the attempt was reported; `removed`: its bytes are gone since. */
export const ARTIFACT_STATES = ['stored', 'missing', 'removed'] as const;
export type ArtifactState = (typeof ARTIFACT_STATES)[number];

/** A row of `artifacts`: a file that a run has left, or was to leave. Of each run those of one attempt, the last that ended by a report. */
@Entity('artifacts')
@Check('artifacts_state_check', "state in ('stored', 'missing', 'removed')")
@Check('artifacts_store_check', '(store is null) = (key is null)')
@Index('artifacts_kept', ['at', 'runId'], { where: "((state = 'stored'::text) AND (store IS NULL))" })
export class ArtifactEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'artifacts_pkey' }) runId: string;
  /** As the run names it; of a pattern with the path behind its folder. */
  @PrimaryColumn('text', { primaryKeyConstraintName: 'artifacts_pkey' }) name: string;
  @Column('integer') attempt: number;
  /** In the container; null: nobody said. */
  @Column('text', { nullable: true }) path: string | null;
  /** As the store has it; null: it is missing. A bigint as decimal string. */
  @Column('bigint', { nullable: true }) bytes: string | null;
  /** Hexadecimal; null: neither worker nor store told it. */
  @Column('text', { nullable: true }) sha256: string | null;
  /** By which the store tells another content; null: it is missing. */
  @Column('text', { nullable: true }) etag: string | null;
  @Column('text', { name: 'content_type', nullable: true }) contentType: string | null;
  @Column('text') state: ArtifactState;
  /** The store that it went to, by name; null: that of the service. */
  @Column('text', { nullable: true }) store: string | null;
  /** In that store; null exactly without one. */
  @Column('text', { nullable: true }) key: string | null;
  /** When the end of the attempt was recorded. */
  @Column({ type: 'timestamptz', precision: 3 }) at: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'removed_at', nullable: true }) removedAt: Date | null;
}

/** A row of `artifact_uploads`: an artifact that an attempt sends in parts. */
@Entity('artifact_uploads')
@Index('artifact_uploads_started', ['startedAt'])
export class ArtifactUploadEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'artifact_uploads_pkey' }) runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'artifact_uploads_pkey' }) attempt: number;
  @PrimaryColumn('text', { primaryKeyConstraintName: 'artifact_uploads_pkey' }) name: string;
  /** Id of the upload at the store. */
  @Column('text', { name: 'upload_id' }) uploadId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'started_at' }) startedAt: Date;
}

/** A row of `object_cleanups`: when objects of a run that has ended are to be removed. */
@Entity('object_cleanups')
@Index('object_cleanups_due', ['dueAt'])
export class ObjectCleanupEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'object_cleanups_pkey' }) runId: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at' }) dueAt: Date;
  /** Whether all are removed, so that the run can be removed; else those of attempts that do not count. */
  @Column('boolean', { name: 'removes_all', default: false }) removesAll: boolean;
}

/** The one row of `deployments`: tells the files of this deployment from those of others in the same store. */
@Entity('deployments')
@Unique('deployments_is_only_key', ['isOnly'])
@Check('deployments_is_only_check', 'is_only')
export class DeploymentEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'deployments_pkey' })
  id: string;
  @Column('boolean', { name: 'is_only', default: true }) isOnly: boolean;
}

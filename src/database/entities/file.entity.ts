import { Check, Column, Entity, ForeignKey, Index, PrimaryColumn } from 'typeorm';

/** `removed`: the row stays for those that used the file, without its bytes. */
export const FILE_STATES = ['awaited', 'stored', 'removed'] as const;
export type FileState = (typeof FILE_STATES)[number];

/** A row of `files`: a file that a client uploads. Its bytes are in the store. */
@Entity('files')
@Check('files_bytes_check', 'bytes >= 0')
@Check('files_part_bytes_check', 'part_bytes >= 1')
@Check('files_removed_check', "(state = 'removed') = (removed_at is not null)")
@Check('files_state_check', "state in ('awaited', 'stored', 'removed', 'deleted')")
@Index('files_by_content', ['createdBy', 'sha256', 'createdAt'])
@Index('files_due', ['dueAt'])
export class FileEntity {
  /** A random UUID: whoever knows it may read the file. */
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'files_pkey' }) id: string;
  @Column('text') name: string;
  /** As the client announced them. A bigint as decimal string. */
  @Column('bigint') bytes: string;
  /** Hexadecimal; null: neither client nor store told it. */
  @Column('text', { nullable: true }) sha256: string | null;
  @Column('text', { name: 'content_type', nullable: true }) contentType: string | null;
  /** `deleted`: it is gone for clients, and its bytes are being removed. */
  @Column('text') state: FileState | 'deleted';
  /** Id of the API key. */
  @Column('uuid', { name: 'created_by' }) createdBy: string;
  @Column('text', { name: 'created_by_name' }) createdByName: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  /** When it was made, made again, or the last that used it was removed. */
  @Column({ type: 'timestamptz', precision: 3, name: 'last_used_at' }) lastUsedAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'removed_at', nullable: true }) removedAt: Date | null;
  /** When the job that removes files looks at it; null: not before something that uses it is removed. */
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at', nullable: true }) dueAt: Date | null;
  /** Of an upload in parts: its id at the store, until it is completed. */
  @Column('text', { name: 'upload_id', nullable: true }) uploadId: string | null;
  /** Bytes of each part but the last; null: the upload is in one piece. A bigint as decimal string. */
  @Column('bigint', { name: 'part_bytes', nullable: true }) partBytes: string | null;
}

/** What may use a file. */
export type FileUserKind = 'run' | 'definition' | 'schedule';

/** A row of `file_uses`: a run, a version of a definition or a schedule uses a file. */
@Entity('file_uses')
@Check('file_uses_kind_check', "kind in ('run', 'definition', 'schedule')")
@Index('file_uses_of_file', ['fileId', 'kind', 'userId'])
export class FileUseEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'file_uses_pkey' }) kind: FileUserKind;
  @PrimaryColumn('text', { name: 'user_id', primaryKeyConstraintName: 'file_uses_pkey' }) userId: string;
  @PrimaryColumn('uuid', { name: 'file_id', primaryKeyConstraintName: 'file_uses_pkey' })
  @ForeignKey(() => FileEntity, { name: 'file_uses_file_id_fkey', onDelete: 'CASCADE' })
  fileId: string;
}

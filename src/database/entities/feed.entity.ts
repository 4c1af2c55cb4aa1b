import { Check, Column, Entity, ForeignKey, Index, PrimaryColumn, Unique } from 'typeorm';

/** A row of `feed_topics`: the positions between which a topic's feed has entries. */
@Entity('feed_topics')
@Index('feed_topics_by_oldest', ['oldestAt'], { where: 'oldest_at is not null' })
export class FeedTopicEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'feed_topics_pkey' }) topic: string;
  /** Position of the newest entry. A bigint as decimal string, like every position. */
  @Column('bigint', { name: 'last_position' }) lastPosition: string;
  /** Position of the oldest entry that retention has kept. */
  @Column('bigint', { name: 'first_position', default: 1 }) firstPosition: string;
  /** When the oldest entry that retention has kept was recorded; null without entries. */
  @Column({ type: 'timestamptz', precision: 3, name: 'oldest_at', nullable: true }) oldestAt: Date | null;
}

/** A row of `feed_entries`: a position in a topic's feed that references an entry of a run's timeline. */
@Entity('feed_entries')
export class FeedEntryEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'feed_entries_pkey' }) topic: string;
  /** Dense within the topic, from 1; in commit order. */
  @PrimaryColumn('bigint', { primaryKeyConstraintName: 'feed_entries_pkey' }) position: string;
  @Column('uuid', { name: 'run_id' }) runId: string;
  @Column('integer', { name: 'event_index' }) eventIndex: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'recorded_at' }) recordedAt: Date;
}

/** A row of `feed_epochs`: a feed epoch, which a restore of the database starts for all feeds. */
@Entity('feed_epochs')
@Check('feed_epochs_number_check', '"number" >= 1')
@Unique('feed_epochs_token_key', ['token'])
export class FeedEpochEntity {
  /** 1 for the first restore; the epoch before it has no row. */
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'feed_epochs_pkey' }) number: number;
  /** Part of the cursors of this epoch: 8 characters of base64url. */
  @Column('text') token: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'began_at' }) beganAt: Date;
}

/** A row of `feed_epoch_heads`: the last position that an epoch shares with the one before it. */
@Entity('feed_epoch_heads')
@Check('feed_epoch_heads_last_position_check', 'last_position >= 0')
export class FeedEpochHeadEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'feed_epoch_heads_pkey' }) topic: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'feed_epoch_heads_pkey' })
  @ForeignKey(() => FeedEpochEntity, { name: 'feed_epoch_heads_number_fkey', onDelete: 'CASCADE' })
  number: number;
  @Column('bigint', { name: 'last_position' }) lastPosition: string;
}

/** The row of `database_origin`: values by which a restored database differs from the original. */
@Entity('database_origin')
@Check('database_origin_only_row_check', 'only_row')
export class DatabaseOriginEntity {
  @PrimaryColumn('boolean', {
    name: 'only_row',
    default: true,
    primaryKeyConstraintName: 'database_origin_pkey',
  })
  onlyRow: boolean;
  @Column('jsonb') marks: Record<string, string>;
}

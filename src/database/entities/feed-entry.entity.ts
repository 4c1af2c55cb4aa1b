import { Column, Entity, PrimaryColumn } from 'typeorm';

/** A row of `feed_entries`: a place in a topic's feed that points at an entry of a run's timeline. */
@Entity('feed_entries')
export class FeedEntryEntity {
  @PrimaryColumn('text') topic: string;
  /** Dense within the topic, from 1; in commit order. A decimal string, as the driver gives a bigint. */
  @PrimaryColumn('bigint') position: string;
  @Column('uuid', { name: 'run_id' }) runId: string;
  @Column('integer', { name: 'event_index' }) eventIndex: number;
  @Column('timestamptz', { name: 'recorded_at' }) recordedAt: Date;
}

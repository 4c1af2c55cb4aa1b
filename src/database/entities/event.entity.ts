import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';

/** A row of `events`: an entry of a run's timeline. */
@Entity('events')
@Check('events_index_check', '"index" >= 0')
@Check('events_size_check', 'size >= 0')
@Index('events_by_commit', ['commitOrder', 'runId', 'index'])
export class EventEntity {
  @PrimaryColumn('uuid', { name: 'run_id', primaryKeyConstraintName: 'events_pkey' }) runId: string;
  @PrimaryColumn('integer', { primaryKeyConstraintName: 'events_pkey' }) index: number;
  @Column('integer') attempt: number;
  @Column('text') type: string;
  /** State of the run after the command that recorded the entry. */
  @Column('text') state: string;
  @Column({ type: 'timestamptz', precision: 3 }) t: Date;
  @Column('json') msg: string | number;
  @Column('json') payload: JsonObject;
  /** Bytes of message and payload as JSON. */
  @Column('integer') size: number;
  /** Place in the order of all events, see the function `next_commit_order` of the schema. A bigint as decimal string. */
  @Column('bigint', { name: 'commit_order', default: () => 'next_commit_order()' }) commitOrder: string;
  /** Id of the API key that sent it (`Caller.keyId`); null for events that the service records by itself. */
  @Column('uuid', { nullable: true }) sender: string | null;
}

import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '../../json/json-value.js';

/** A row of `events`: an entry of a run's timeline. */
@Entity('events')
export class EventEntity {
  @PrimaryColumn('uuid', { name: 'run_id' }) runId: string;
  @PrimaryColumn('integer') index: number;
  @Column('integer') attempt: number;
  @Column('text') type: string;
  /** State of the run after the command that recorded the entry. */
  @Column('text') state: string;
  @Column('timestamptz') t: Date;
  @Column('json') msg: string | number;
  @Column('json') payload: JsonObject;
  /** Bytes of message and payload as JSON. */
  @Column('integer') size: number;
}

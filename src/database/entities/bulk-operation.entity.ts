import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';

/** What a bulk operation does to its runs. */
export const BULK_ACTIONS = ['cancel', 'retry', 'priority', 'labels'] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** `stopped` and `done` are final. */
export const BULK_STATES = ['running', 'done', 'stopped'] as const;
export type BulkState = (typeof BULK_STATES)[number];

/** A run that a bulk operation did not change, and why. */
export interface BulkRefusal {
  readonly id: string;
  readonly detail: string;
}

/** A row of `bulk_operations`: a change of all runs that a filter matched when it was created. */
@Entity('bulk_operations')
@Check('bulk_operations_action_check', "action in ('cancel', 'retry', 'priority', 'labels')")
@Check('bulk_operations_check', 'refused between 0 and processed')
@Check('bulk_operations_end_check', "(state = 'running') = (ended_at is null)")
@Check('bulk_operations_processed_check', 'processed between 0 and matched')
@Check('bulk_operations_state_check', "state in ('running', 'done', 'stopped')")
@Index('bulk_operations_due', ['dueAt'], { where: "(state = 'running'::text)" })
@Index('bulk_operations_running', ['keyId'], { where: "(state = 'running'::text)" })
@Index('bulk_operations_turns', ['keyId', 'turnAt'])
@Index('bulk_operations_ended', ['endedAt'], { where: '(ended_at IS NOT NULL)' })
export class BulkOperationEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'bulk_operations_pkey' }) id: string;
  @Column('text') action: BulkAction;
  /** As the request had it. */
  @Column('json') filter: JsonObject;
  /** As the request had it; null for actions without a value. */
  @Column('json', { nullable: true }) value: JsonObject | number | null;
  @Column('text', { nullable: true }) reason: string | null;
  /** The API key of the request. */
  @Column('uuid', { name: 'key_id' }) keyId: string;
  @Column('text', { name: 'key_name' }) keyName: string;
  /** Whether the key had the scope admin: such operations go before others. */
  @Column('boolean', { name: 'is_admin' }) isAdmin: boolean;
  /** Number of runs that the filter matched. */
  @Column('integer') matched: number;
  /** How many of them are done or refused. */
  @Column('integer', { default: 0 }) processed: number;
  @Column('integer', { default: 0 }) refused: number;
  /** The first 100 of the refused ones. */
  @Column('json') refusals: readonly BulkRefusal[];
  @Column('text') state: BulkState;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  /** When the next page may be begun: a process that begins one puts it off. */
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at' }) dueAt: Date;
  /** When its last page was begun: the next page is one of the key that has waited longest. */
  @Column({ type: 'timestamptz', name: 'turn_at', nullable: true }) turnAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'ended_at', nullable: true }) endedAt: Date | null;
  /** The runs that the filter matched, in the order in which they are processed; empty after the end. */
  @Column('uuid', { name: 'run_ids', array: true }) runIds: string[];
}

import { Check, Column, Entity, Index, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

/** What a webhook may be told of. */
export const WEBHOOK_EVENTS = [
  'run.created',
  'run.started',
  'run.completed',
  'run.failed',
  'run.attempt_failed',
  'run.reclaimed',
  'run.cancelled',
  'run.recovered',
  'schedule.skipped',
  'group.ended',
  'webhook.disabled',
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/** Parts of a message that are sent on request only. */
export const WEBHOOK_PARTS = ['outputs'] as const;
export type WebhookPart = (typeof WEBHOOK_PARTS)[number];

/** What a run must have for a webhook to be told of it: one value of each list. */
export interface WebhookConditions {
  readonly topic?: string[];
  readonly definition?: string[];
  readonly schedule?: string[];
  /** `key` or `key=value`. */
  readonly label?: string[];
}

/** How far a webhook has read. Times are ISO 8601. */
export interface WebhookPosition {
  /** Cursor of `RunEvents`; null: before the oldest event. */
  readonly events: string | null;
  /** `events.commit_order` of the cursor. */
  readonly order: string;
  /** Creation and id of the last run whose creation was read. */
  readonly createdAt: string;
  readonly createdId: string;
  /** `commit_order` and id of the last time of a schedule that was read. */
  readonly firesOrder: string;
  readonly firesId: string;
  /** `end_order` and id of the last end of a group that was read. */
  readonly groupsOrder: string;
  readonly groupsId: string;
  /** What happened before is left out. */
  readonly from: string;
  /** What happened afterwards is left out; absent: nothing is. */
  readonly until?: string;
  /** What was committed before was read. */
  readonly readAt: string;
}

/** A time of which retention may have removed events before they were read. */
export interface WebhookGap {
  readonly from: string;
  readonly until: string;
}

/** A row of `webhooks`: an endpoint with its place in the order of all events. */
@Entity('webhooks')
@Check('webhooks_disabled_reason_check', 'disabled_reason is null or not is_enabled')
@Check('webhooks_events_check', 'cardinality(events) > 0')
@Check('webhooks_failing_check', '(failures = 0) = (failing_since is null)')
@Check('webhooks_failures_check', 'failures >= 0')
@Check('webhooks_lease_check', '(lease is null) = (lease_until is null)')
@Check('webhooks_old_secret_check', '(old_secret is null) = (old_secret_until is null)')
export class WebhookEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'webhooks_pkey' }) id: string;
  @Column('text') url: string;
  @Column('text', { nullable: true }) description: string | null;
  @Column('text', { array: true }) events: WebhookEvent[];
  @Column('json') conditions: WebhookConditions;
  @Column('text', { array: true }) include: WebhookPart[];
  /** Encrypted by `SecretCipher`. */
  @Column('bytea') secret: Buffer;
  /** The secret before the last rotation, and until when it signs, too. */
  @Column('bytea', { name: 'old_secret', nullable: true }) oldSecret: Buffer | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'old_secret_until', nullable: true })
  oldSecretUntil: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
  @Column('json', { nullable: true }) gap: WebhookGap | null;
  @Column('boolean', { name: 'is_enabled', default: true }) isEnabled: boolean;
  /** Why the service disabled it; null: it did not. */
  @Column('text', { name: 'disabled_reason', nullable: true }) disabledReason: string | null;
  @Column('json') position: WebhookPosition;
  /** A time that is sent again beside; null: none. */
  @Column('json', { nullable: true }) replay: WebhookPosition | null;
  /** Failed tries since the last one that succeeded. */
  @Column('integer', { default: 0 }) failures: number;
  @Column({ type: 'timestamptz', precision: 3, name: 'failing_since', nullable: true })
  failingSince: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'last_success_at', nullable: true })
  lastSuccessAt: Date | null;
  /** When an endpoint that fails is tried again. */
  @Column({ type: 'timestamptz', precision: 3, name: 'probe_at', nullable: true }) probeAt: Date | null;
  /** Names the turn that works for the webhook, and until when others leave it alone. */
  @Column('uuid', { nullable: true }) lease: string | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'lease_until', nullable: true }) leaseUntil: Date | null;
}

/** `parked`: it failed and is tried again; the others are final. */
export const DELIVERY_STATES = ['parked', 'delivered', 'failed'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** A row of `webhook_deliveries`: a message to an endpoint, and its last try. */
@Entity('webhook_deliveries')
@Check('webhook_deliveries_due_check', "(state = 'parked') = (due_at is not null)")
@Check('webhook_deliveries_state_check', "state in ('parked', 'delivered', 'failed')")
@Check('webhook_deliveries_tries_check', 'tries >= 0')
@Index('webhook_deliveries_by_state', ['webhookId', 'state', 'id'])
@Index('webhook_deliveries_listed', ['webhookId', 'id'])
@Index('webhook_deliveries_settled', ['createdAt'], { where: "(state <> 'parked'::text)" })
export class WebhookDeliveryEntity {
  /** A bigint as decimal string. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'webhook_deliveries_pkey',
  })
  id: string;
  @Column('uuid', { name: 'webhook_id' }) webhookId: string;
  /** The header `webhook-id`, the same for every try. */
  @Column('text', { name: 'message_id' }) messageId: string;
  @Column('text') type: string;
  /** Id of what the message is about: messages about one are sent in order. */
  @Column('text') subject: string;
  @Column('text') body: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column('text') state: DeliveryState;
  @Column('integer') tries: number;
  /** Of a parked one: when the next try is due. */
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at', nullable: true }) dueAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'tried_at', nullable: true }) triedAt: Date | null;
  /** HTTP status of the last try; null: there was no answer. */
  @Column('smallint', { nullable: true }) status: number | null;
  @Column('integer', { name: 'duration_ms', nullable: true }) durationMs: number | null;
  /** Beginning of the last answer, or why there was none. */
  @Column('text', { nullable: true }) detail: string | null;
}

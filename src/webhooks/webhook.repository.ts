import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { recordChange, type AuditedChange, type Author } from '../auth/audit-log.js';
import { sendNotice } from '../database/notices/commit-notice.js';
import { WebhookEntity, type WebhookPosition } from '../database/entities/webhook.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { currentTime, execute, rows } from '../database/sql/sql.js';
import { DeliveryRepository } from './delivery.repository.js';

/** Webhooks of a deployment. */
export const MAX_WEBHOOKS = 100;

/** First key of the advisory lock under which webhooks are created. */
const CREATE_LOCK = 7_301_907;

const WEBHOOKS = new EntityTable(WebhookEntity);
const NEW = ['id', 'url', 'description', 'events', 'conditions', 'include', 'secret', 'isEnabled'] as const;

/** Columns of `webhooks w`. An old secret that has expired is null. */
export const COLUMNS = `${WEBHOOKS.select('w', WEBHOOKS.except('oldSecret', 'oldSecretUntil'))},
              case when w.old_secret_until > clock_timestamp() then w.old_secret end as "oldSecret",
              case when w.old_secret_until > clock_timestamp() then w.old_secret_until end as "oldSecretUntil"`;

/** A webhook as lists show it. */
export interface ShownWebhook extends WebhookEntity {
  readonly parked: number;
}

/** The columns to set, the entry of the audit log, and whether what is parked is tried at once. */
export type WebhookChange = (
  webhook: WebhookEntity,
  now: Date,
) => Awaitable<{
  readonly set: Partial<WebhookEntity>;
  readonly entry: Omit<AuditedChange, 'subject'>;
  readonly retriesParked?: boolean;
}>;
type Awaitable<T> = T | Promise<T>;

/** `parked` has one row for each subject: the oldest message, which the others wait behind. */
export const PARKED = `
  left join lateral (
         select min(h.due_at) as due_at, coalesce(sum(h.n), 0)::integer as parked
           from (
                  select distinct on (subject) due_at, count(*) over (partition by subject) as n
                    from webhook_deliveries
                   where webhook_id = w.id and state = 'parked'
                   order by subject, id
                ) h
       ) parked on true`;

@Injectable()
export class WebhookRepository {
  constructor(
    private readonly dataSource: DataSource,
    private readonly deliveries: DeliveryRepository,
  ) {}

  /** For what is written outside of a turn. */
  get manager(): EntityManager {
    return this.dataSource.manager;
  }

  /** Stores a webhook and records it in the audit log. @returns null: there are as many as there may be */
  insert(
    webhook: Pick<WebhookEntity, (typeof NEW)[number]>,
    positionAt: (now: Date) => Promise<WebhookPosition>,
    by: Author,
  ): Promise<ShownWebhook | null> {
    return this.dataSource.transaction(async (manager) => {
      await execute(manager, `select pg_advisory_xact_lock(${CREATE_LOCK})`);
      if ((await manager.count(WebhookEntity)) >= MAX_WEBHOOKS) return null;
      const now = await currentTime(manager);
      const position = await positionAt(now);
      await manager.insert(WebhookEntity, { ...webhook, position, createdAt: now, updatedAt: now });
      const { id, url, description, events, conditions, include, isEnabled } = webhook;
      const after = { url, description, events, where: conditions, include, enabled: isEnabled };
      await this.#recordAndWake(manager, by, { action: 'webhook.create', subject: id, before: {}, after });
      return this.find(id, manager);
    });
  }

  async find(id: string, manager: EntityManager = this.dataSource.manager): Promise<ShownWebhook | null> {
    const [found] = await this.#list(manager, 'where w.id = $1::uuid', [id]);
    return found ?? null;
  }

  /** All of them, the oldest first. */
  list(): Promise<ShownWebhook[]> {
    return this.#list(this.dataSource.manager, 'order by w.id', []);
  }

  #list(manager: EntityManager, condition: string, params: readonly unknown[]): Promise<ShownWebhook[]> {
    return rows<ShownWebhook>(
      manager,
      `select ${COLUMNS}, parked.parked from webhooks w ${PARKED} ${condition}`,
      params,
    );
  }

  /**
   * Changes a webhook. A turn that works for it loses its lease, so that it writes nothing over the change.
   * @returns null: there is no such webhook
   */
  change(id: string, by: Author, change: WebhookChange): Promise<ShownWebhook | null> {
    return this.dataSource.transaction(async (manager) => {
      const [webhook] = await rows<WebhookEntity & { now: Date }>(
        manager,
        `select ${COLUMNS}, date_trunc('milliseconds', clock_timestamp()) as now
           from webhooks w where id = $1::uuid for update`,
        [id],
      );
      if (!webhook) return null;
      const { set, entry, retriesParked } = await change(webhook, webhook.now);
      await manager.update(
        WebhookEntity,
        { id },
        { ...set, updatedAt: webhook.now, lease: null, leaseUntil: null },
      );
      if (retriesParked === true) await this.deliveries.bringForward(manager, id);
      await this.#recordAndWake(manager, by, { subject: id, ...entry });
      return this.find(id, manager);
    });
  }

  /** Removes a webhook and what waits for it. @returns false: there is no such webhook */
  remove(id: string, by: Author, describe: (webhook: WebhookEntity) => object): Promise<boolean> {
    return this.dataSource.transaction(async (manager) => {
      const [webhook] = await rows<WebhookEntity>(
        manager,
        `delete from webhooks w where id = $1::uuid returning ${COLUMNS}`,
        [id],
      );
      if (!webhook) return false;
      await execute(
        manager,
        `delete from webhook_deliveries where webhook_id = $1::uuid and state = 'parked'`,
        [id],
      );
      const before = describe(webhook);
      await this.#recordAndWake(manager, by, { action: 'webhook.delete', subject: id, before, after: {} });
      return true;
    });
  }

  async #recordAndWake(manager: EntityManager, by: Author, entry: AuditedChange): Promise<void> {
    await recordChange(manager, by, entry);
    await sendNotice(manager, { webhooks: true });
  }

  /** A message that an admin asked for was taken: what is parked is tried at once. */
  noteSuccess(id: string): Promise<void> {
    return this.dataSource.transaction(async (manager) => {
      await execute(
        manager,
        'update webhooks set failures = 0, failing_since = null, last_success_at = clock_timestamp() where id = $1::uuid',
        [id],
      );
      await this.deliveries.bringForward(manager, id);
      await sendNotice(manager, { webhooks: true });
    });
  }
}

import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { WebhookDeliveryEntity, type DeliveryState } from '../database/entities/webhook.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, rows } from '../database/sql/sql.js';
import type { Attempt, Message } from './delivery/webhook-sender.js';

const DELIVERIES = new EntityTable(WebhookDeliveryEntity);

/** A delivery as lists show it. */
export type ShownDelivery = Omit<WebhookDeliveryEntity, 'body'>;

/** A message that waits for another try. */
export type ParkedDelivery = Message & Pick<WebhookDeliveryEntity, 'id' | 'tries'>;

/** What a delivery is after a try, or without one. */
export interface Settled {
  readonly state: DeliveryState;
  readonly tries: number;
  /** Seconds until the next try; null: there is none. */
  readonly dueInS: number | null;
  /** null: it was not tried. */
  readonly attempt: Attempt | null;
}

const TRIED = { due_in_s: 'float8', is_tried: 'boolean' } as const;
const INSERTED = DELIVERIES.unnest(
  ['messageId', 'type', 'subject', 'body', 'state', 'tries', 'status', 'durationMs', 'detail'],
  { extra: TRIED, firstParam: 2 },
);
const SETTLED = DELIVERIES.unnest(['id', 'state', 'tries', 'status', 'durationMs', 'detail'], {
  extra: TRIED,
});
const DUE_AT = 'clock_timestamp() + make_interval(secs => v.due_in_s)';
const TRIED_AT = 'case when v.is_tried then clock_timestamp() end';

@Injectable()
export class DeliveryRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** Stores deliveries, in order. @returns their ids */
  async append(
    manager: EntityManager,
    webhookId: string,
    deliveries: readonly (Message & Settled)[],
  ): Promise<string[]> {
    if (deliveries.length === 0) return [];
    const stored = await rows<{ id: string }>(
      manager,
      `insert into ${DELIVERIES.name} (webhook_id, message_id, type, subject, body, created_at, state, tries, due_at, tried_at,
                                       status, duration_ms, detail)
       select $1::uuid, v.message_id, v.type, v.subject, v.body, clock_timestamp(), v.state, v.tries, ${DUE_AT}, ${TRIED_AT},
              v.status, v.duration_ms, v.detail
         from (select *, row_number() over () as n from ${INSERTED.sql}) v
        order by v.n
    returning id`,
      [webhookId, ...INSERTED.params(deliveries.map((one) => ({ ...one, ...columnsOf(one) })))],
    );
    return stored.map(({ id }) => id);
  }

  /** Writes what came of tries. */
  async settle(
    manager: EntityManager,
    tried: readonly (Pick<WebhookDeliveryEntity, 'id'> & Settled)[],
  ): Promise<void> {
    await execute(
      manager,
      `update ${DELIVERIES.name} d
          set state = v.state, tries = v.tries, due_at = ${DUE_AT}, tried_at = coalesce(${TRIED_AT}, d.tried_at),
              status = case when v.is_tried then v.status else d.status end,
              duration_ms = case when v.is_tried then v.duration_ms else d.duration_ms end,
              detail = case when v.is_tried then v.detail else d.detail end
         from ${SETTLED.sql}
        where d.id = v.id`,
      SETTLED.params(tried.map((one) => ({ ...one, ...columnsOf(one) }))),
    );
  }

  /** Writes what came of a try that an admin asked for. It is delivered, or stays in its state. */
  async note(
    manager: EntityManager,
    id: string,
    { isDelivered, status, durationMs, detail }: Attempt,
  ): Promise<void> {
    await execute(
      manager,
      `update ${DELIVERIES.name}
          set state = case when $2::boolean then 'delivered' else state end,
              due_at = case when $2::boolean then null else due_at end,
              tries = tries + 1,
              tried_at = clock_timestamp(), status = $3::smallint, duration_ms = $4::integer, detail = $5::text
        where id = $1::bigint`,
      [id, isDelivered, status, durationMs, detail],
    );
  }

  /** The oldest parked message of each subject that is due; with `isProbe` the oldest of all, due or not. */
  listDue(webhookId: string, limit: number, isProbe: boolean): Promise<ParkedDelivery[]> {
    return rows<ParkedDelivery>(
      this.dataSource.manager,
      `select h.id, h.message_id as "messageId", h.type, h.subject, h.body, h.tries
         from (
                select distinct on (subject) *
                  from ${DELIVERIES.name}
                 where webhook_id = $1::uuid and state = 'parked'
                 order by subject, id
              ) h
        where $3::boolean or h.due_at <= clock_timestamp()
        order by h.id
        limit $2::integer`,
      [webhookId, limit, isProbe],
    );
  }

  /** How many messages are parked, by subject. */
  async countParked(webhookId: string): Promise<ReadonlyMap<string, number>> {
    const found = await rows<{ subject: string; n: number }>(
      this.dataSource.manager,
      `select subject, count(*)::integer as n
         from ${DELIVERIES.name}
        where webhook_id = $1::uuid and state = 'parked'
        group by subject`,
      [webhookId],
    );
    return new Map(found.map(({ subject, n }) => [subject, n]));
  }

  /** Lets the parked messages be tried now: the endpoint has taken one again. */
  async bringForward(manager: EntityManager, webhookId: string): Promise<void> {
    await execute(
      manager,
      `update ${DELIVERIES.name} set due_at = clock_timestamp()
        where webhook_id = $1::uuid and state = 'parked' and due_at > clock_timestamp()`,
      [webhookId],
    );
  }

  /** The newest first. @param before the id of the last one of the page before */
  list(
    webhookId: string,
    {
      before,
      limit,
      state,
    }: {
      readonly before: string | undefined;
      readonly limit: number;
      readonly state: DeliveryState | undefined;
    },
  ): Promise<ShownDelivery[]> {
    return rows<ShownDelivery>(
      this.dataSource.manager,
      `select ${DELIVERIES.select('d', DELIVERIES.except('body'))}
         from ${DELIVERIES.name} d
        where webhook_id = $1::uuid
          and ($2::bigint is null or id < $2::bigint)
          and ($4::text is null or state = $4::text)
        order by id desc
        limit $3::integer`,
      [webhookId, before ?? null, limit, state ?? null],
    );
  }

  async find(webhookId: string, id: string): Promise<WebhookDeliveryEntity | null> {
    const [found] = await rows<WebhookDeliveryEntity>(
      this.dataSource.manager,
      `select ${DELIVERIES.select('d')} from ${DELIVERIES.name} d where id = $1::bigint and webhook_id = $2::uuid`,
      [id, webhookId],
    );
    return found ?? null;
  }

  /** Removes up to `limit` deliveries that are not parked and were made before the time. @returns how many */
  removeSettled(before: Date, limit: number): Promise<number> {
    return execute(
      this.dataSource.manager,
      `delete from ${DELIVERIES.name}
        where id in (
                select id
                  from ${DELIVERIES.name}
                 where state <> 'parked' and created_at < $1::timestamptz
                 order by created_at
                 limit $2::integer
                   for update skip locked
              )`,
      [before.toISOString(), limit],
    );
  }
}

function columnsOf({ dueInS, attempt }: Settled) {
  return {
    due_in_s: dueInS,
    is_tried: attempt !== null,
    status: attempt?.status ?? null,
    durationMs: attempt?.durationMs ?? null,
    detail: attempt?.detail ?? null,
  };
}

import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { recordChange } from '../../auth/audit-log.js';
import { sendNotice } from '../../database/notices/commit-notice.js';
import type { WebhookEntity, WebhookGap, WebhookPosition } from '../../database/entities/webhook.entity.js';
import { execute, rows } from '../../database/sql/sql.js';
import { COLUMNS, PARKED } from '../webhook.repository.js';
import type { Message } from './webhook-sender.js';

/** Failed tries in a row after which an endpoint gets one message at a time, until it takes one. */
export const MAX_FAILURES = 10;
/** Messages that wait for another try, after which a webhook reads no more. */
export const MAX_PARKED = 1000;
/** Messages that one event may become, at most: its run's creation, and itself twice. */
export const MESSAGES_PER_EVENT = 3;

/** For how long others leave a webhook alone that a turn works for, in seconds; a turn renews it. */
const LEASE_S = 60;
const PROBE_S = 30;
/** Without a success since the first failure for so long, a webhook is disabled. */
const GIVE_UP_AFTER = '5 days';
/** A webhook with what a turn needs. */
export interface TakenWebhook extends WebhookEntity {
  /** The database's time. */
  readonly now: Date;
  /** Whether it has had no success for too long. */
  readonly isLost: boolean;
}

/** When a webhook needs a turn. */
export interface DueWebhook extends Pick<WebhookEntity, 'id'> {
  /** Milliseconds from now on; null: when something happens. */
  readonly inMs: number | null;
}

/** What a turn has come to. */
export interface Progress {
  readonly position?: WebhookPosition;
  /** null: it has ended. */
  readonly replay?: WebhookPosition | null;
  readonly gap?: WebhookGap;
  readonly failures: number;
  readonly hadSuccess: boolean;
}

/** Another turn works for the webhook, or it was changed so that the turn must begin again. */
export class LeaseLost extends Error {}

const IS_PROBED = `(w.failures >= ${MAX_FAILURES} or parked.parked > ${MAX_PARKED - MESSAGES_PER_EVENT})`;

/** `unread.is_readable` is null when nothing is unread; an event behind the bound cannot be read yet. */
const UNREAD = `
  left join lateral (
         select e.commit_order < commit_order_bound() as is_readable, e.t
           from events e
          where e.commit_order > (w.position ->> 'order')::bigint
          order by e.commit_order
          limit 1
       ) unread on true`;

/** The same of the creations of runs, which are read up to the begin of the oldest open transaction. */
const UNREAD_CREATION = `
  left join lateral (
         select min(r.created_at) < (
                  select date_trunc('milliseconds', coalesce(min(xact_start), 'infinity'))
                    from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid()
                ) as is_readable
           from unnest('{OPEN,CANCELLED,COMPLETED,FAILED}'::text[]) as o (outcome)
          cross join lateral (
                  select created_at
                    from runs
                   where outcome = o.outcome
                     and max_attempts > 0
                     and (created_at, id) > ((w.position ->> 'createdAt')::timestamptz, (w.position ->> 'createdId')::uuid)
                   order by created_at, id
                   limit 1
                ) r
          where 'run.created' = any(w.events)
       ) creation on true`;

/** The same of times of schedules for which no run was made. */
const UNREAD_SKIP = `
  left join lateral (
         select f.commit_order < commit_order_bound() as is_readable
           from schedule_fires f
          where f.outcome <> 'created'
            and (f.commit_order, f.id) > ((w.position ->> 'firesOrder')::bigint, (w.position ->> 'firesId')::bigint)
            and 'schedule.skipped' = any(w.events)
          order by f.commit_order, f.id
          limit 1
       ) skip on true`;

/** The same of ends of groups. */
const UNREAD_END = `
  left join lateral (
         select g.end_order < commit_order_bound() as is_readable
           from groups g
          where (g.end_order, g.id) > ((w.position ->> 'groupsOrder')::bigint, (w.position ->> 'groupsId')::uuid)
            and 'group.ended' = any(w.events)
          order by g.end_order, g.id
          limit 1
       ) group_end on true`;

const READINGS = ['unread', 'creation', 'skip', 'group_end'];
const IS_UNREAD = `(${READINGS.map((one) => `${one}.is_readable is true`).join(' or ')})`;
const IS_BEHIND_BOUND = `(${READINGS.map((one) => `${one}.is_readable is false`).join(' or ')})`;

/** What the turns of webhooks read and write. Each has a lease, without which it writes nothing. */
@Injectable()
export class TurnRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** The enabled webhooks, with when they are due: for unread events, messages to try again, or a turn that has died. */
  listDue(): Promise<DueWebhook[]> {
    return rows<DueWebhook>(
      this.dataSource.manager,
      `select w.id,
              case
                when w.lease_until > clock_timestamp() then extract(epoch from w.lease_until - clock_timestamp()) * 1000
                when w.lease is not null then 0
                when not ${IS_PROBED} then least(
                       greatest(0, extract(epoch from parked.due_at - clock_timestamp()) * 1000),
                       case
                         when ${IS_UNREAD} or w.replay is not null
                           or (w.position ->> 'readAt')::timestamptz < clock_timestamp() - interval '1 hour' then 0
                         when ${IS_BEHIND_BOUND} then 1000
                       end
                     )
                when parked.parked > 0 or ${IS_UNREAD} or w.replay is not null
                  then greatest(0, extract(epoch from w.probe_at - clock_timestamp()) * 1000)
                when ${IS_BEHIND_BOUND} then 1000
              end::float8 as "inMs"
         from webhooks w ${PARKED} ${UNREAD} ${UNREAD_CREATION} ${UNREAD_SKIP} ${UNREAD_END}
        where w.is_enabled`,
    );
  }

  /** Takes a webhook for a turn; null: another one works for it, or it is disabled. */
  async take(id: string, lease: string): Promise<TakenWebhook | null> {
    const [taken] = await rows<TakenWebhook>(
      this.dataSource.manager,
      `update webhooks w
          set lease = $2::uuid, lease_until = clock_timestamp() + interval '${LEASE_S} seconds'
        where id = $1::uuid
          and is_enabled
          and (lease is null or lease_until < clock_timestamp())
    returning ${COLUMNS},
              date_trunc('milliseconds', clock_timestamp()) as now,
              coalesce(w.failing_since < clock_timestamp() - interval '${GIVE_UP_AFTER}', false) as "isLost"`,
      [id, lease],
    );
    return taken ?? null;
  }

  /** @throws LeaseLost */
  async renew(id: string, lease: string): Promise<void> {
    const renewed = await execute(
      this.dataSource.manager,
      `update webhooks set lease_until = clock_timestamp() + interval '${LEASE_S} seconds'
        where id = $1::uuid and lease = $2::uuid`,
      [id, lease],
    );
    if (renewed === 0) throw new LeaseLost();
  }

  async release(id: string, lease: string): Promise<void> {
    await execute(
      this.dataSource.manager,
      'update webhooks set lease = null, lease_until = null where id = $1::uuid and lease = $2::uuid',
      [id, lease],
    );
  }

  /** Writes what a turn has come to, with what `also` writes. @throws LeaseLost, and then nothing is written */
  record(
    id: string,
    lease: string,
    { position, replay, gap, failures, hadSuccess }: Progress,
    also: (manager: EntityManager) => Promise<void>,
  ): Promise<void> {
    return this.dataSource.transaction(async (manager) => {
      const written = await execute(
        manager,
        `update webhooks
            set position = coalesce($3::json, position),
                replay = case when $4::text = 'null' then null else coalesce($4::json, replay) end,
                gap = coalesce($5::json, gap),
                failures = $6::integer,
                failing_since = case
                                  when $6::integer = 0 then null
                                  when $7::boolean then clock_timestamp()
                                  else coalesce(failing_since, clock_timestamp())
                                end,
                last_success_at = case when $7::boolean then clock_timestamp() else last_success_at end,
                probe_at = clock_timestamp() + interval '${PROBE_S} seconds',
                lease_until = clock_timestamp() + interval '${LEASE_S} seconds'
          where id = $1::uuid
            and lease = $2::uuid`,
        [id, lease, textOf(position), textOf(replay), textOf(gap), failures, hadSuccess],
      );
      if (written === 0) throw new LeaseLost();
      await also(manager);
    });
  }

  /** Disables a webhook, and lets those that subscribe it tell so. @throws LeaseLost */
  disable(
    { id, url }: Pick<WebhookEntity, 'id' | 'url'>,
    lease: string,
    reason: string,
    message: Message,
  ): Promise<void> {
    return this.dataSource.transaction(async (manager) => {
      const written = await execute(
        manager,
        `update webhooks set is_enabled = false, disabled_reason = $3::text, lease = null, lease_until = null
          where id = $1::uuid and lease = $2::uuid`,
        [id, lease, reason],
      );
      if (written === 0) throw new LeaseLost();
      await execute(
        manager,
        `insert into webhook_deliveries (webhook_id, message_id, type, subject, body, created_at, state, tries, due_at)
         select id, $1::text, $2::text, $3::text, $4::text, clock_timestamp(), 'parked', 0, clock_timestamp()
           from webhooks
          where is_enabled
            and $2::text = any(events)`,
        [message.messageId, message.type, message.subject, message.body],
      );
      const before = { url, enabled: true };
      const after = { url, enabled: false, reason };
      const entry = { action: 'webhook.disable', subject: id, before, after } as const;
      await recordChange(manager, { name: 'longshore' }, entry);
      await sendNotice(manager, { webhooks: true });
    });
  }

  /** Seconds since the oldest of what the enabled webhooks have not sent happened; 0: they have sent everything. */
  async findLag(): Promise<number> {
    const [row] = await rows<{ lag: number }>(
      this.dataSource,
      `select coalesce(extract(epoch from clock_timestamp() - min(least(unread.t, p.created_at))), 0)::float8 as lag
         from webhooks w ${UNREAD}
         left join lateral (
                select min(created_at) as created_at
                  from webhook_deliveries
                 where webhook_id = w.id and state = 'parked'
              ) p on true
        where w.is_enabled`,
    );
    return Math.max(0, row?.lag ?? 0);
  }
}

/** Null leaves the column as it is. */
function textOf(value: object | null | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}

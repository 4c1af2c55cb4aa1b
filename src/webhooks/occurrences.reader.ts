import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { MAX, NIL } from 'uuid';
import { Settings } from '../config/settings.js';
import type {
  WebhookEntity,
  WebhookEvent,
  WebhookGap,
  WebhookPosition,
} from '../database/entities/webhook.entity.js';
import { GroupEntity } from '../database/entities/group.entity.js';
import { ScheduleFireEntity } from '../database/entities/schedule.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { rows } from '../database/sql/sql.js';
import { decodeEventCursor, EVENT_DISORDER_MS, RunEvents } from '../runs/run-events.js';
import { readRunFacts } from './run-facts.js';
import type { Message } from './delivery/webhook-sender.js';
import {
  ENDED_GROUP,
  fireMessage,
  groupMessage,
  hasHappened,
  meets,
  runMessage,
  webhookEventsOf,
  type EndedGroup,
  type RunMoment,
  type SkippedFire,
} from './message.js';

const DAY_MS = 86_400_000;

const NEVER = '9999-12-31T00:00:00.000Z';
/** Greater than every id. */
const MAX_ID = '9223372036854775807';
const FIRES = new EntityTable(ScheduleFireEntity);
const GROUPS = new EntityTable(GroupEntity);

/** What of a webhook decides what it is told. */
export type Subscription = Pick<WebhookEntity, 'id' | 'events' | 'conditions' | 'include'>;

/** What comes next. */
export interface OccurrencePage {
  readonly messages: readonly Message[];
  /** Behind them. */
  readonly position: WebhookPosition;
  readonly hasMore: boolean;
  /** A time of which retention may have removed events before they were read. */
  readonly gap?: WebhookGap;
}

/** A moment with the webhook events that it may be. */
interface Candidate {
  readonly moment: RunMoment;
  readonly events: readonly WebhookEvent[];
}

/** Reads what happened, in the order of the commits, and makes messages of what a webhook subscribes. */
@Injectable()
export class OccurrencesReader {
  private readonly logger = new Logger('Webhooks');

  constructor(
    private readonly dataSource: DataSource,
    private readonly events: RunEvents,
    @Inject(Settings) private readonly settings: Pick<Settings, 'publicUrl' | 'runRetentionDays'>,
  ) {}

  /** The position from which what happens at a time or later is read; null: from now on. */
  async positionAt(time: Date | null, now: Date, until?: Date): Promise<WebhookPosition> {
    const cursor = await this.events.cursorAt(time);
    const from = (time ?? now).toISOString();
    const order = orderOf(cursor);
    const place = {
      events: cursor,
      order,
      createdAt: from,
      createdId: NIL,
      firesOrder: order,
      firesId: MAX_ID,
      groupsOrder: order,
      groupsId: MAX,
      from,
      readAt: from,
    };
    return until === undefined ? place : { ...place, until: until.toISOString() };
  }

  /** The next messages, of at most `limit` events. @param now the database's time, before which everything is read at the end */
  async read(
    webhook: Subscription,
    position: WebhookPosition,
    limit: number,
    now: Date,
  ): Promise<OccurrencePage> {
    if (webhook.events.includes('run.created')) {
      const created = await this.#readCreated(webhook, position, limit);
      if (created) return created;
    }
    if (webhook.events.includes('schedule.skipped')) {
      const skipped = await this.#readSkipped(webhook, position, limit);
      if (skipped) return skipped;
    }
    if (webhook.events.includes('group.ended')) {
      const ended = await this.#readEnded(webhook, position, limit);
      if (ended) return ended;
    }
    const page = await this.events.read(position.events, limit);
    const { until = NEVER } = position;
    const candidates = page.events
      .filter(({ t }) => t >= position.from && t <= until)
      .map(({ run_id: runId, index, attempt, type, state, t }) => ({ runId, index, attempt, type, state, t }))
      .map((moment) => ({
        moment,
        events: webhookEventsOf(moment).filter((one) => webhook.events.includes(one)),
      }));
    const messages = await this.#messagesOf(webhook, candidates, position);
    const last = page.events.at(-1);
    const isBehindUntil = Date.parse(last?.t ?? '') - EVENT_DISORDER_MS > Date.parse(until);
    const hasMore = page.has_more && !isBehindUntil;
    const gap = this.#gapBehind(position, now);
    const readAt = hasMore ? (gap?.until ?? position.readAt) : now.toISOString();
    const next = { ...position, events: page.next_cursor, order: orderOf(page.next_cursor), readAt };
    return { messages, position: next, hasMore, ...(gap && { gap }) };
  }

  #gapBehind({ readAt, until }: WebhookPosition, now: Date): WebhookGap | undefined {
    const { runRetentionDays } = this.settings;
    const removed = new Date(now.getTime() - runRetentionDays * DAY_MS).toISOString();
    if (runRetentionDays === 0 || readAt >= removed) return undefined;
    return { from: readAt, until: until !== undefined && until < removed ? until : removed };
  }

  /**
   * Creations are not in the order of the events, but in that of their times, which are not before the begin of the transaction:
   * those before the oldest open transaction are complete.
   */
  async #readCreated(
    webhook: Subscription,
    position: WebhookPosition,
    limit: number,
  ): Promise<OccurrencePage | null> {
    const { manager } = this.dataSource;
    const [open] = await rows<{ before: Date }>(
      manager,
      `select date_trunc('milliseconds', coalesce(min(xact_start), clock_timestamp())) as before
         from pg_stat_activity
        where datname = current_database()`,
    );
    const found = await rows<{ id: string; createdAt: Date }>(
      manager,
      `select r.id, r.created_at as "createdAt"
         from unnest('{OPEN,CANCELLED,COMPLETED,FAILED}'::text[]) as o (outcome)
        cross join lateral (
                select id, created_at
                  from runs
                 where outcome = o.outcome
                   and max_attempts > 0
                   and (created_at, id) > ($1::timestamptz, $2::uuid)
                   and created_at < least($3::timestamptz, $4::timestamptz)
                 order by created_at, id
                 limit $5::integer
              ) r
        order by r.created_at, r.id
        limit $5::integer`,
      [position.createdAt, position.createdId, open?.before, position.until ?? 'infinity', limit],
    );
    const last = found.at(-1);
    if (!last) return null;
    const candidates = found.map(({ id, createdAt }) => creationOf(id, createdAt));
    return {
      messages: await this.#messagesOf(webhook, candidates, null),
      position: { ...position, createdAt: last.createdAt.toISOString(), createdId: last.id },
      hasMore: true,
    };
  }

  async #readSkipped(
    webhook: Subscription,
    position: WebhookPosition,
    limit: number,
  ): Promise<OccurrencePage | null> {
    const found = await rows<SkippedFire>(
      this.dataSource.manager,
      `select ${FIRES.select('f', FIRES.except('kind', 'runId'))}, s.labels
         from schedule_fires f
         join schedules s on s.id = f.schedule_id
        where f.outcome <> 'created'
          and (f.commit_order, f.id) > ($1::bigint, $2::bigint)
          and f.commit_order < commit_order_bound()
        order by f.commit_order, f.id
        limit $3::integer`,
      [position.firesOrder, position.firesId, limit],
    );
    const last = found.at(-1);
    if (!last) return null;
    const wanted = found.filter((fire) => isWanted(webhook, position, fire, fire.firedAt));
    return {
      messages: wanted.map(fireMessage),
      position: { ...position, firesOrder: last.commitOrder, firesId: last.id },
      hasMore: true,
    };
  }

  /** A group that was opened again since has no end. */
  async #readEnded(
    webhook: Subscription,
    position: WebhookPosition,
    limit: number,
  ): Promise<OccurrencePage | null> {
    const found = await rows<EndedGroup>(
      this.dataSource.manager,
      `select ${GROUPS.select('g', ENDED_GROUP)}
         from groups g
        where (g.end_order, g.id) > ($1::bigint, $2::uuid)
          and g.end_order < commit_order_bound()
        order by g.end_order, g.id
        limit $3::integer`,
      [position.groupsOrder, position.groupsId, limit],
    );
    const last = found.at(-1);
    if (!last) return null;
    const { publicUrl } = this.settings;
    return {
      messages: found.flatMap((group) =>
        group.endedAt !== null && isWanted(webhook, position, group, group.endedAt)
          ? [groupMessage(group, group.endedAt, publicUrl)]
          : [],
      ),
      position: { ...position, groupsOrder: last.endOrder ?? position.groupsOrder, groupsId: last.id },
      hasMore: true,
    };
  }

  /**
   * The messages that the webhook gets. One that cannot be made is logged, and the others go on.
   * @param position a creation behind it is told before the first event of the run, which it must not follow; null: none is
   */
  async #messagesOf(
    webhook: Subscription,
    candidates: readonly Candidate[],
    position: WebhookPosition | null,
  ): Promise<Message[]> {
    const tellsCreations = position !== null && webhook.events.includes('run.created');
    const wanted = candidates.filter(
      ({ events, moment }) => events.length > 0 || (tellsCreations && moment.index === 0),
    );
    if (wanted.length === 0) return [];
    const moments = wanted.map(({ moment }) => moment);
    const facts = await readRunFacts(this.dataSource, webhook, moments);
    const shape = { include: webhook.include, base: this.settings.publicUrl };
    return wanted.flatMap(({ events, moment }, n) => {
      const run = facts[n];
      try {
        if (!run) throw new Error('the run was removed');
        if (!meets(webhook.conditions, run)) return [];
        const { createdAt } = run;
        const isUntold =
          tellsCreations &&
          moment.index === 0 &&
          `${createdAt.toISOString()} ${moment.runId}` > `${position.createdAt} ${position.createdId}`;
        const creation = isUntold ? [creationOf(moment.runId, createdAt)] : [];
        return [...creation, { events, moment }].flatMap((one) =>
          one.events
            .filter((event) => hasHappened(event, run))
            .map((event) => runMessage(event, one.moment, run, shape)),
        );
      } catch (error) {
        this.logger.error(
          `No message of ${moment.type} of run ${moment.runId} for webhook ${webhook.id}`,
          error instanceof Error ? error.stack : String(error),
        );
        return [];
      }
    });
  }
}

/** Whether what happened to a schedule or a group is within the time and the conditions. */
function isWanted(
  { conditions }: Subscription,
  { from, until = NEVER }: WebhookPosition,
  { scheduleId, labels }: Pick<EndedGroup, 'scheduleId' | 'labels'>,
  at: Date,
): boolean {
  return (
    at >= new Date(from) &&
    at <= new Date(until) &&
    meets(conditions, { topic: null, definitionId: null, scheduleId, labels })
  );
}

function creationOf(runId: string, createdAt: Date): Candidate {
  const moment = {
    runId,
    index: null,
    attempt: 1,
    type: 'CREATED',
    state: 'PENDING',
    t: createdAt.toISOString(),
  };
  return { moment, events: ['run.created'] };
}

function orderOf(cursor: string | null): string {
  return cursor === null ? '0' : (decodeEventCursor(cursor)?.place.commitOrder ?? '0');
}

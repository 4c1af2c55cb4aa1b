import { Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { config, mergeMap, share, type Observable } from 'rxjs';
import { DataSource, type EntityManager } from 'typeorm';
import { FeedEpochEntity } from '../database/entities/feed.entity.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { rows } from '../database/sql/sql.js';
import {
  listCommittedEvents,
  toCommittedEvent,
  type CommittedEvent,
  type EventPlace,
} from './events/committed-event.js';
import { committedEventsOf, CommittedGroups, type CommittedGroup } from './journal/committed-groups.js';

/** A page of all events of the deployment. */
export interface EventPage {
  /** Oldest first. */
  readonly events: readonly CommittedEvent[];
  /** Pass it as `after` to read on, now or later. On an empty page it is the `after` that was given. */
  readonly next_cursor: string | null;
  readonly has_more: boolean;
}

const MAX_EVENTS = 500;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * The events of runs, for extension modules. `committed$` is immediate and may miss events: use it for caches and
 * metrics. `read` misses none and may repeat events after a crash of the reader or a restore of the database: use it
 * for integrations, and identify an event by `run_id` and `index`.
 */
@Injectable()
export class RunEvents implements OnModuleInit {
  /**
   * Events that this process committed, at most once each, in the order of their commits. Other processes of the
   * deployment publish theirs to their own subscribers only. Subscribers are called before the callers that caused the
   * events get their answers, so they must be fast. An error that one throws is logged. Completes on shutdown.
   */
  readonly committed$: Observable<CommittedEvent>;
  private readonly logger = new Logger(RunEvents.name);

  constructor(
    private readonly dataSource: DataSource,
    groups: CommittedGroups,
  ) {
    this.committed$ = groups.pipe(
      mergeMap((group) => this.#eventsOf(group)),
      share(),
    );
  }

  /** None if they cannot be told, which is logged: the stream goes on. */
  #eventsOf({ changes }: CommittedGroup): readonly CommittedEvent[] {
    try {
      return committedEventsOf(changes);
    } catch (error) {
      this.logger.error('Events were not published', error instanceof Error ? error.stack : String(error));
      return [];
    }
  }

  onModuleInit(): void {
    // rxjs throws what a subscriber throws from a timer, which would end the process.
    config.onUnhandledError ??= (error: unknown) => {
      this.logger.error('An rxjs subscriber failed', error instanceof Error ? error.stack : String(error));
    };
  }

  /**
   * Reads events of all runs of the deployment, whichever process committed them: in one order, that of each run's
   * timeline included. No event that is committed later comes before a page that was read. Events appear when all
   * transactions that wrote to the PostgreSQL cluster before them have ended, so a long transaction delays them.
   * Events that retention has removed are left out.
   * @param after cursor of an earlier page; null for the oldest event. After a restore of the database it goes on with
   * what the restored database has recorded; if the cursor is from another restore, with the oldest event.
   * @param limit events at most, 1 to 500; large events make a page shorter
   * @param manager the transaction to read in, so that a reader that keeps its cursor there needs one connection only
   * @throws InvalidRequest for a cursor that no page gave out, or another limit
   */
  async read(
    after: string | null,
    limit: number,
    manager: EntityManager = this.dataSource.manager,
  ): Promise<EventPage> {
    if (!Number.isInteger(limit) || limit < 1 || limit > MAX_EVENTS) {
      throw new InvalidRequest(`limit must be an integer from 1 to ${MAX_EVENTS}`);
    }
    const epochs = await manager.find(FeedEpochEntity);
    const found = await listCommittedEvents(manager, placeBehind(after, epochs), {
      events: limit,
      bytes: MAX_BYTES,
    });
    const last = found.at(-1);
    return {
      events: found.map((row) => toCommittedEvent(row, row)),
      next_cursor: last ? encodeEventCursor(last, tokenOf(last, epochs)) : after,
      has_more: Number(last?.found ?? 0) > found.length,
    };
  }

  /**
   * A cursor of `read`: of the events that are committed from now on, or of those that were recorded at a time or later. A few
   * that were recorded before may come first.
   */
  async cursorAt(time: Date | null, manager: EntityManager = this.dataSource.manager): Promise<string> {
    const epochs = await manager.find(FeedEpochEntity);
    const [row] = await rows<{ commitOrder: string }>(
      manager,
      time === null ? 'select commit_order_bound() - 1 as "commitOrder"' : ORDER_AT,
      time === null ? [] : [new Date(time.getTime() - EVENT_DISORDER_MS).toISOString()],
    );
    const place = { commitOrder: row?.commitOrder ?? '0', ...LAST_OF_COMMIT };
    return encodeEventCursor(place, tokenOf(place, epochs));
  }
}

/** No event was recorded longer before the one before it in the order of commits: it is longer than any transaction of the journal. */
export const EVENT_DISORDER_MS = 3_600_000;

/** Behind all events of a commit order. */
const LAST_OF_COMMIT = { runId: 'ffffffff-ffff-ffff-ffff-ffffffffffff', index: 2 ** 31 - 1 } as const;

/**
 * The place in the order of commits before the first event that was recorded at $1, found by halving the range of orders: times
 * grow with them but for the disorder.
 */
const ORDER_AT = `
  with recursive halves (low, high) as (
    select coalesce((select min(commit_order) from events), 1) - 1, coalesce((select max(commit_order) from events), 0) + 1
     union all
    select case when e.t < $1::timestamptz then middle else low end,
           case when e.t < $1::timestamptz then high else middle end
      from (select low, high, low + (high - low) / 2 as middle from halves where high - low > 1) h
      left join lateral (
        select t from events where commit_order >= h.middle order by commit_order, run_id, index limit 1
      ) e on true
  )
  select low as "commitOrder" from halves order by high - low limit 1`;

/** @throws InvalidRequest for a malformed cursor */
function placeBehind(after: string | null, epochs: readonly FeedEpochEntity[]): EventPlace {
  if (after === null) return FIRST_PLACE;
  const cursor = decodeEventCursor(after);
  if (!cursor) throw new InvalidRequest('Malformed cursor');
  return cursor.token === tokenOf(cursor.place, epochs) ? cursor.place : FIRST_PLACE;
}

/** Token of the restore after which an event was recorded; null: it was before any. */
function tokenOf(place: EventPlace, epochs: readonly FeedEpochEntity[]): string | null {
  const epoch = epochOf(place);
  return epochs.find(({ number }) => number === epoch)?.token ?? null;
}

const RUN_AT = 8;
const INDEX_AT = 24;
const TOKEN_AT = 28;

/** 28 bytes as base64url, and after a restore 6 more. */
const FORM = /^[A-Za-z0-9_-]{38}(?:[A-Za-z0-9_-]{8})?$/;

/** Bits of `events.commit_order` below the number of the restore. */
const EPOCH_SHIFT = 48n;

/** Before all events. */
export const FIRST_PLACE: EventPlace = {
  commitOrder: '0',
  runId: '00000000-0000-0000-0000-000000000000',
  index: -1,
};

/** Number of the restore after which an event was recorded; 0: it was before any. */
export function epochOf({ commitOrder }: EventPlace): number {
  return Number(BigInt(commitOrder) >> EPOCH_SHIFT);
}

export function encodeEventCursor({ commitOrder, runId, index }: EventPlace, token: string | null): string {
  const bytes = Buffer.alloc(TOKEN_AT);
  bytes.writeBigInt64BE(BigInt(commitOrder));
  bytes.write(runId.replaceAll('-', ''), RUN_AT, 'hex');
  bytes.writeInt32BE(index, INDEX_AT);
  return Buffer.concat([bytes, Buffer.from(token ?? '', 'base64url')]).toString('base64url');
}

/** Reads a cursor; null if it is malformed. The token is that of the restore before the event; null: none was before it. */
export function decodeEventCursor(
  text: string,
): { readonly place: EventPlace; readonly token: string | null } | null {
  if (!FORM.test(text)) return null;
  const bytes = Buffer.from(text, 'base64url');
  // Without this check several texts would stand for the same bytes.
  if (bytes.toString('base64url') !== text) return null;
  const runId = bytes
    .toString('hex', RUN_AT, INDEX_AT)
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  const place = { commitOrder: String(bytes.readBigInt64BE()), runId, index: bytes.readInt32BE(INDEX_AT) };
  const token = bytes.length > TOKEN_AT ? bytes.toString('base64url', TOKEN_AT) : null;
  const epoch = epochOf(place);
  return epoch < 0 || place.index < 0 || epoch > 0 !== (token !== null) ? null : { place, token };
}

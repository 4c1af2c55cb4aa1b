import type { EntityManager } from 'typeorm';
import { recordChange, type Author } from '../../auth/audit-log.js';
import type { FireKind, ScheduleFireEntity } from '../../database/entities/schedule.entity.js';
import { execute, RowArrays, rows } from '../../database/sql/sql.js';
import type { Advance } from '../schedule-times.js';
import type { Idempotency } from '../../runs/idempotency/idempotency.repository.js';
import type { BatchDone, BatchLedger } from '../../runs/journal/command.js';
import type { MissedTimes } from './due-times.js';

/** What became of a time. */
export type NewFire = Omit<
  ScheduleFireEntity,
  'id' | 'scheduleId' | 'firedAt' | 'commitOrder' | 'idempotencyKey' | 'requestHash'
>;

/** The entry of times that passed. */
export function toMissedFire({ from, until, count }: MissedTimes, reason: string, kind: FireKind): NewFire {
  const range = { nominalAt: from, untilAt: until, count };
  return { kind, ...range, outcome: 'skipped_missed', reason, runId: null, groupId: null };
}

/** What a commit does to a schedule, as it was when it was read. */
export interface FireRecord {
  readonly scheduleId: string;
  readonly revision: string;
  readonly fires: readonly NewFire[];
  readonly failedInRow: number;
  /** Null: its next time stays, as for a trigger. */
  readonly advance: Advance | null;
  /** Null: it is not paused by this. */
  readonly pausedNote: string | null;
  /** Outcomes of fires that these replace. */
  readonly replaced: readonly NewFire['outcome'][];
  /** Who asked for it; null: nobody, or it is in the audit log. */
  readonly triggeredBy: Author | null;
  /** Key of the request for it; undefined: none. */
  readonly idempotency?: Idempotency | undefined;
}

/** The author of what the service does by itself, in the audit log. */
export const SERVICE: Author = { name: 'longshore' };

const ADVANCE = `update schedules s
          set next_at = case when v.paused_note is not null then null when v.moves then v.next_at else s.next_at end,
              due_at = case when v.paused_note is not null then null when v.moves then v.due_at else s.due_at end,
              paused_at = case when v.paused_note is not null then $11::timestamptz else s.paused_at end,
              paused_note = coalesce(v.paused_note, s.paused_note),
              paused_by_name = case when v.paused_note is not null then null else s.paused_by_name end,
              failed_in_row = v.failed_in_row,
              created = s.created + v.created,
              skipped_overlap = s.skipped_overlap + v.skipped_overlap,
              skipped_missed = s.skipped_missed + v.skipped_missed,
              failed = s.failed + v.failed,
              revision = s.revision + 1
         from unnest(
                $1::text[], $2::boolean[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::integer[], $7::integer[], $8::integer[],
                $9::integer[], $10::integer[]
              ) as v (id, moves, next_at, due_at, paused_note, failed_in_row, created, skipped_overlap, skipped_missed, failed)
        where s.id = v.id`;

const INSERT = `insert into schedule_fires as f (
         schedule_id, nominal_at, kind, outcome, run_id, group_id, reason, count, until_at, idempotency_key, request_hash, fired_at
       )
       select v.*, $12::timestamptz
         from unnest(
                $1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::text[], $8::integer[],
                $9::timestamptz[], $10::text[], $11::text[]
              ) as v (
                schedule_id, nominal_at, kind, outcome, run_id, group_id, reason, count, until_at, idempotency_key, request_hash
              )
           on conflict (schedule_id, nominal_at) where outcome <> 'skipped_missed' do update
          set kind = excluded.kind,
              outcome = excluded.outcome,
              run_id = excluded.run_id,
              group_id = excluded.group_id,
              reason = excluded.reason,
              fired_at = excluded.fired_at,
              commit_order = excluded.commit_order`;

const ADVANCES = RowArrays.of<
  | 'id'
  | 'moves'
  | 'nextAt'
  | 'dueAt'
  | 'pausedNote'
  | 'failedInRow'
  | 'created'
  | 'skippedOverlap'
  | 'skippedMissed'
  | 'failed'
>(ADVANCE);
const FIRES = RowArrays.of<keyof NewFire | 'scheduleId' | 'idempotencyKey' | 'requestHash'>(INSERT);

/** Schedules as the journal moves them on, with what became of their times, in the commit of their runs and groups. */
class ScheduleLedger implements BatchLedger<FireRecord> {
  /** @returns one record of each schedule that is as it was when the record was made */
  async lock(manager: EntityManager, records: readonly FireRecord[]): Promise<ReadonlySet<FireRecord>> {
    const locked = await rows<{ id: string; revision: string }>(
      manager,
      `select id, revision
         from schedules
        where id = any($1::text[])
        order by id
          for update`,
      [records.map(({ scheduleId }) => scheduleId)],
    );
    return new Set(
      locked.flatMap(
        ({ id, revision }) =>
          records.find((record) => record.scheduleId === id && record.revision === revision) ?? [],
      ),
    );
  }

  async write(manager: EntityManager, done: readonly BatchDone<FireRecord>[], now: Date): Promise<void> {
    const records = done.map(({ record }) => record);
    const fires = records.flatMap(({ scheduleId, fires: own, idempotency }) => {
      const key = {
        idempotencyKey: idempotency?.scope ?? null,
        requestHash: idempotency?.requestHash ?? null,
      };
      return own.map((fire) => ({ scheduleId, ...fire, ...key }));
    });
    await Promise.all([
      execute(manager, ADVANCE, [...ADVANCES.params(records.map(toAdvance)), now.toISOString()]),
      execute(manager, INSERT, [...FIRES.params(fires), now.toISOString()]),
      ...records.flatMap(({ scheduleId: subject, pausedNote: note, triggeredBy: by, fires: [fire] }) => {
        const change = { subject, before: {} };
        const trigger = {
          ...change,
          action: 'schedule.trigger',
          after: { outcome: fire?.outcome, run_id: fire?.runId, group_id: fire?.groupId },
        } as const;
        const pause = { ...change, action: 'schedule.pause', after: { note } } as const;
        return [
          ...(by === null ? [] : [recordChange(manager, by, trigger)]),
          ...(note === null ? [] : [recordChange(manager, SERVICE, pause)]),
        ];
      }),
    ]);
  }
}

function toAdvance({ scheduleId: id, advance, pausedNote, failedInRow, fires, replaced }: FireRecord) {
  const timesOf = (outcome: NewFire['outcome']): number =>
    fires.reduce((sum, fire) => sum + (fire.outcome === outcome ? fire.count : 0), 0) -
    replaced.filter((one) => one === outcome).length;
  return {
    id,
    moves: advance !== null,
    nextAt: advance?.nextAt ?? null,
    dueAt: advance?.dueAt ?? null,
    pausedNote,
    failedInRow,
    created: timesOf('created'),
    skippedOverlap: timesOf('skipped_overlap'),
    skippedMissed: timesOf('skipped_missed'),
    failed: timesOf('failed'),
  };
}

export const SCHEDULE_LEDGER = new ScheduleLedger();

import type { EntityManager } from 'typeorm';
import { execute, plainArray, RowArrays, rows } from '../../database/sql/sql.js';
import type { FoundRun } from '../machine/run.js';
import { FOUND_COLUMNS } from './run-columns.js';

/** What a group wants to know of the open runs of a concurrency key. */
export interface WantedKey {
  readonly key: string;
  /** Runs that are counted, at most. */
  readonly counted: number;
  /** Runs that the group creates with a decision by the key. */
  readonly created: number;
  /** Of the oldest runs, as many are read as are beyond this number with the runs that the group may add; null: none. */
  readonly readFrom: number | null;
}

/** The open runs of the keys that a group wants to know of. */
export interface OpenRuns {
  readonly counts: ReadonlyMap<string, number>;
  /** The oldest, locked. */
  readonly oldest: readonly FoundRun[];
  /** By the database's clock; undefined: no key was wanted. */
  readonly readAt?: Date | undefined;
}

export const NO_OPEN_RUNS: OpenRuns = { counts: new Map(), oldest: [] };

/** The oldest runs of a key that are locked before the key is, of a group that is carried out again. */
const LOCKED_FIRST = 200;

// A key that is there is locked, and not written.
const LOCK = `with runs_first as materialized (
         select r.id
           from runs r
          where r.id = any($2::uuid[])
             or r.id in (
                  select o.id
                    from unnest($3::text[]) as w (key)
                   cross join lateral (
                     select r.id
                       from runs r
                      where r.concurrency_key = w.key
                        and r.outcome = 'OPEN'
                      order by r.created_at, r.id
                      limit ${LOCKED_FIRST}
                   ) o
                )
          order by r.id
            for update
       )
       insert into concurrency_keys as k (key, executing)
       select w.key, 0
         from (select count(*) from runs_first) locked
        cross join unnest($1::text[]) as w (key)
        order by w.key
           on conflict (key) do update
          set executing = k.executing
        where false`;

const READ = `with wanted as materialized (
         select v.key, v.created - v.read_from as beyond, c.count
           from unnest($1::text[], $2::integer[], $3::integer[], $4::integer[]) as v (key, counted, created, read_from)
          cross join lateral (
            select count(*)::integer
              from (
                select
                  from runs r
                 where r.concurrency_key = v.key
                   and r.outcome = 'OPEN'
                 limit v.counted
              ) r
          ) c
       ),
       oldest as materialized (
         select o.id
           from wanted w
          cross join lateral (
            select r.id
              from runs r
             where r.concurrency_key = w.key
               and r.outcome = 'OPEN'
             order by r.created_at, r.id
             limit greatest(0, w.count + w.beyond + $5::integer)
          ) o
       ),
       locked as materialized (
         select ${FOUND_COLUMNS}, r.outcome <> 'OPEN' as "hasEnded"
           from runs r
          where r.id in (select id from oldest)
            for update skip locked
       )
       select w.key, w.count, l.*, date_trunc('milliseconds', clock_timestamp()) as "readAt"
         from require_all_written((select count(*) from locked), (select count(*) from oldest))
        cross join wanted w
         left join locked l on l."concurrencyKey" = w.key`;
const WANTED = RowArrays.of<keyof WantedKey>(READ);

/**
 * Locks keys, so that no other transaction decides by their open runs. Runs are locked before keys: who waits for a key holds runs.
 * @param runIds of the runs that the transaction changes
 * @param isRetry whether the oldest runs are locked, too, because another transaction held one of them at the first try
 */
export async function lockKeys(
  manager: EntityManager,
  keys: readonly WantedKey[],
  runIds: readonly string[],
  isRetry: boolean,
): Promise<void> {
  const cancelling = isRetry ? keys.filter(({ readFrom }) => readFrom !== null) : [];
  const names = (of: readonly WantedKey[]): string[] => of.map(({ key }) => key);
  await execute(manager, LOCK, [names(keys), plainArray(runIds), names(cancelling)]);
}

/**
 * Counts the open runs of keys, which the transaction holds, and reads and locks the oldest.
 * @param changed runs that the group changes: it may end or open as many
 * @throws QueryFailedError with the code of a serialization failure if another transaction holds one of the oldest
 */
export async function readOpenRuns(
  manager: EntityManager,
  keys: readonly WantedKey[],
  changed: number,
): Promise<OpenRuns> {
  type Found = FoundRun & {
    readonly key: string;
    readonly count: number;
    readonly readAt: Date;
    readonly hasEnded: boolean | null;
  };
  const found = await rows<Found>(manager, READ, [...WANTED.params(keys), changed]);
  const counts = new Map(found.map(({ key, count }) => [key, count]));
  // One may have ended between the count and the lock.
  for (const { key, hasEnded } of found) if (hasEnded) counts.set(key, (counts.get(key) ?? 0) - 1);
  return { counts, oldest: found.filter(({ hasEnded }) => hasEnded === false), readAt: found[0]?.readAt };
}

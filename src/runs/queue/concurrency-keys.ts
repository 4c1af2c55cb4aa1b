import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { ConcurrencySlotEntity } from '../../database/entities/queue.entity.js';
import { execute, RowArrays, rows, unnestRows, type SqlExecutor } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import { claimablePart, type ClaimableRun, type QueuePosition } from './lane.js';
import { sendNotice } from '../../database/notices/commit-notice.js';

/**
 * A program that counts for its key, and of its worker's resources, until its worker no longer names it, or until `endsAt` and
 * the `stop_grace_s` of its run.
 */
export type ConcurrencySlot = Readonly<Omit<ConcurrencySlotEntity, 'id' | 'isKilled' | 'cpuMillis'>> & {
  readonly cpuMillis: number;
};

/** A run that a worker names. */
export interface NamedAttempt {
  readonly id: string;
  /** Absent: any. */
  readonly attempt?: number | undefined;
}

/** An attempt whose program its worker is ending. */
export interface EndingAttempt {
  readonly id: string;
  /** 1-based. */
  readonly attempt: number;
}

/** Milliseconds beyond the grace for which a slot is held at most; the clean-up of the queue frees it after that. */
export const SLOT_MS = 30_000;

/** Milliseconds after the assignment in which a heartbeat that does not name the run may have been sent before it. */
const UNNAMED_MS = 5_000;

/** Runs of one kind and key that claims see at once, at most. */
const MAX_ADMITTED = 100;

/** Kinds of runs of one key that are admitted at once, at most. */
const MAX_KINDS = 1_000;

// A row with a key is changed by the transaction that holds the key, which admits runs of the key without a deadlock.
export const HOLDS_KEY = `(
              q.concurrency_key is null
              or exists (select from concurrency_keys k where k.key = q.concurrency_key for update skip locked)
            )`;

/** Whether no run is in execution with a key of `concurrency_keys k` and none is in the queue. */
const IS_UNUSED = `k.executing = 0
              and not exists (select from queue q where q.concurrency_key = k.key)`;

// The kinds of a key are enumerated by one index step each, and of each the first runs are read: the cost does not depend
// on the number of runs.
const ADMIT = `with recursive kind as (
         select k.key, k.executing, q.alike, q.concurrency_limit, 1 as n
           from concurrency_keys k
          cross join lateral (
            select r.alike, r.concurrency_limit
              from queue r
             where r.concurrency_key = k.key and not r.is_paused
             order by r.alike
             limit 1
          ) q
          where k.key = any($1::text[])
          union all
         select s.key, s.executing, q.alike, q.concurrency_limit, s.n + 1
           from kind s
          cross join lateral (
            select r.alike, r.concurrency_limit
              from queue r
             where r.concurrency_key = s.key and not r.is_paused and r.alike > s.alike
             order by r.alike
             limit 1
          ) q
          where s.n < ${MAX_KINDS}
       ),
       wanted as materialized (
         select first.run_id
           from kind s
          cross join lateral (
            select r.run_id
              from queue r
             where r.concurrency_key = s.key
               and not r.is_paused
               and r.alike = s.alike
             order by r.priority desc, r.created_at, r.run_id
             limit greatest(0, least(s.concurrency_limit - s.executing, ${MAX_ADMITTED}))
          ) first
       ),
       changed as (
         select coalesce(present.run_id, w.run_id) as run_id, w.run_id is not null as is_admitted
           from (
             select r.run_id
               from queue r
              where r.concurrency_key = any($1::text[])
                and r.is_admitted
           ) present
           full join wanted w on w.run_id = present.run_id
          where present.run_id is null or w.run_id is null
       ),
       written as (
         update queue q
            set is_admitted = c.is_admitted
           from changed c
          where q.run_id = c.run_id
      returning q.run_id, q.lane, q.priority, q.created_at, q.is_admitted
       )
       select w.run_id as id, w.priority, w.created_at as "createdAt", w.lane, l.required
         from written w
         join lanes l on l.id = w.lane
        where w.is_admitted`;

const ADD = `insert into concurrency_keys as k (key, executing)
       select v.key, v.executing
         from unnest($1::text[], $2::integer[]) as v (key, executing)
        order by v.key
           on conflict (key) do update
          set executing = k.executing + excluded.executing`;
const CHANGES = RowArrays.of<'key' | 'executing'>(ADD);

const HOLD = `insert into concurrency_slots (
         run_id, attempt, key, worker_id, cpu_millis, ram_mb, vram_mb, gpus, gpu_ids, assigned_at, ends_at
       )
       select v.run_id, v.attempt, v.key, v.worker_id, v.cpu_millis, v.ram_mb, v.vram_mb, v.gpus, v.gpu_ids, v.assigned_at,
              v.ends_at + coalesce((r.options ->> 'stop_grace_s')::integer, 0) * interval '1 second'
         from unnest(
                $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::bigint[], $6::integer[], $7::integer[], $8::smallint[], $9::text[],
                $10::timestamptz[], $11::timestamptz[]
              ) as v (run_id, attempt, key, worker_id, cpu_millis, ram_mb, vram_mb, gpus, gpu_ids, assigned_at, ends_at)
         left join runs r on r.id = v.run_id`;
const NEW_SLOTS = RowArrays.of<keyof ConcurrencySlot>(HOLD);

/**
 * SQL of the table `concurrency_keys`: how many runs of each key are in execution. A transaction that changes the state of
 * a run with a key, or its place in the queue, holds the row of the key until it ends; so the number is exact whenever a
 * run is assigned. Transactions wait for keys in alphabetical order and after they have written runs; claims do not wait.
 */
@Injectable()
export class ConcurrencyKeys {
  /** Locks the keys and adds to their numbers of runs in execution. */
  async add(manager: EntityManager, changes: ReadonlyMap<string, number>): Promise<void> {
    const rowsOfKeys = [...changes].map(([key, executing]) => ({ key, executing }));
    await execute(manager, ADD, CHANGES.params(rowsOfKeys));
  }

  /** Stores slots, whose keys count them already. The grace of a run is read here: nothing else of a commit needs it. */
  async holdSlots(manager: EntityManager, slots: readonly ConcurrencySlot[]): Promise<void> {
    await execute(manager, HOLD, NEW_SLOTS.params(slots));
  }

  /**
   * Frees the slots of a worker but those of the named runs, and lets runs of their keys start.
   * @param named with ids in the form of a run's id
   * @returns whether the worker holds no more slots
   */
  async releaseSlotsOf(
    manager: EntityManager,
    workerId: string,
    named: readonly NamedAttempt[],
  ): Promise<boolean> {
    const source = unnestRows(
      { run_id: 'uuid', attempt: 'integer' },
      named.map(({ id, attempt = null }) => ({ run_id: id, attempt })),
      2,
    );
    const found = `s.worker_id = $1::text
                 and not exists (
                   select from ${source.sql}
                    where v.run_id = s.run_id
                      and coalesce(v.attempt, s.attempt) = s.attempt
                 )
                 and (s.key is null or s.assigned_at <= now() - interval '${UNNAMED_MS} milliseconds')`;
    await this.#release(manager, found, [workerId, ...source.params]);
    const [left] = await rows<{ exists: boolean }>(
      manager,
      `select exists (select from concurrency_slots where worker_id = $1::text) as "exists"`,
      [workerId],
    );
    return left?.exists !== true;
  }

  /** Frees slots whose time is over, and lets runs of their keys start. @returns their number */
  releaseOverdueSlots(manager: EntityManager): Promise<number> {
    return this.#release(manager, 's.ends_at <= now()', []);
  }

  async #release(manager: EntityManager, condition: string, params: readonly unknown[]): Promise<number> {
    const removed = await rows<{ key: string | null; workerId: string }>(
      manager,
      `delete from concurrency_slots
        where id in (
                select s.id
                  from concurrency_slots s
                 where ${condition}
                   for update skip locked
              )
    returning key, worker_id as "workerId"`,
      params,
    );
    if (removed.length === 0) return 0;
    const counts = new Map<string, number>();
    for (const { key } of removed) if (key !== null) counts.set(key, (counts.get(key) ?? 0) - 1);
    const admitted = counts.size === 0 ? [] : await this.#addAndAdmit(manager, counts);
    await sendNotice(manager, {
      ...(admitted.length > 0 && { queue: claimablePart(admitted) }),
      freedWorkers: removed.map(({ workerId }) => workerId),
    });
    return removed.length;
  }

  async #addAndAdmit(manager: EntityManager, counts: ReadonlyMap<string, number>): Promise<ClaimableRun[]> {
    await this.add(manager, counts);
    await readIndexesInOrder(manager);
    return this.admit(manager, [...counts.keys()]);
  }

  /**
   * Notes that the programs of an ended run are to be ended at once.
   * @returns ids of the workers that may still execute one
   */
  async kill(manager: EntityManager, runId: string): Promise<readonly string[]> {
    const killed = await rows<{ workerId: string }>(
      manager,
      `update concurrency_slots
          set is_killed = true
        where run_id = $1::uuid
    returning worker_id as "workerId"`,
      [runId],
    );
    return killed.map(({ workerId }) => workerId);
  }

  /** Those of the attempts that a worker names whose programs are to be ended at once. @param named with ids of runs */
  findKilled(
    executor: SqlExecutor,
    workerId: string,
    named: readonly EndingAttempt[],
  ): Promise<EndingAttempt[]> {
    const source = unnestRows(
      { run_id: 'uuid', attempt: 'integer' },
      named.map(({ id, attempt }) => ({ run_id: id, attempt })),
      2,
    );
    return rows(
      executor,
      `select s.run_id as id, s.attempt
         from concurrency_slots s
         join ${source.sql}
           on v.run_id = s.run_id
          and v.attempt = s.attempt
        where s.worker_id = $1::text
          and s.is_killed`,
      [workerId, ...source.params],
    );
  }

  /** Ids of all workers with a slot. */
  async listSlotWorkers(executor: SqlExecutor): Promise<string[]> {
    const found = await rows<{ id: string }>(
      executor,
      `select distinct worker_id as id from concurrency_slots`,
    );
    return found.map(({ id }) => id);
  }

  /** Locks those of the keys that no other transaction holds. @returns how many runs of each are in execution */
  async lock(manager: EntityManager, keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const found = await rows<{ key: string; executing: number }>(
      manager,
      `select key, executing
         from concurrency_keys
        where key = any($1::text[])
        order by key
          for update skip locked`,
      [keys],
    );
    return new Map(found.map(({ key, executing }) => [key, executing]));
  }

  /**
   * Admits as many runs of these keys to claims as there is room for, the first of each kind, and no others, nor paused ones.
   * The transaction holds the keys.
   * @returns the runs that were not admitted before
   */
  async admit(manager: EntityManager, keys: readonly string[]): Promise<ClaimableRun[]> {
    type Admitted = QueuePosition & { readonly lane: string; readonly required: readonly string[] };
    const admitted = await rows<Admitted>(manager, ADMIT, [keys]);
    return admitted.map(({ lane: id, required, ...position }) => ({ ...position, lane: { id, required } }));
  }

  /**
   * Removes keys that no run uses, among those after a key. A run that enters the queue at the same time keeps its own.
   * @returns the last key that was looked at; null: there are no more
   */
  async removeUnused(
    manager: EntityManager,
    after: string,
    limit: number,
  ): Promise<{ readonly last: string | null; readonly removed: number }> {
    const looked = await rows<{ key: string; isUnused: boolean }>(
      manager,
      `select k.key, ${IS_UNUSED} as "isUnused"
         from concurrency_keys k
        where k.key > $1::text
        order by k.key
        limit $2::integer`,
      [after, limit],
    );
    const last = looked.length < limit ? null : (looked.at(-1)?.key ?? null);
    // Locks only those: transactions wait for a locked key.
    const unused = looked.flatMap(({ key, isUnused }) => (isUnused ? [key] : []));
    const keys = unused.length === 0 ? [] : [...(await this.lock(manager, unused)).keys()];
    if (keys.length === 0) return { last, removed: 0 };
    const removed = await execute(
      manager,
      `delete from concurrency_keys k
        where k.key = any($1::text[])
          and ${IS_UNUSED}`,
      [keys],
    );
    return { last, removed };
  }
}

/** The number of these runs with each key. */
export function countByKey(runs: Iterable<Pick<Run, 'concurrencyKey'>>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { concurrencyKey: key } of runs) if (key !== null) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/**
 * Makes the statements of the rest of the transaction read indexes in their order, as those of the journal's connections do. The
 * planner knows averages only: without this it reads and sorts all rows of a tag or key, which may have a million.
 */
export async function readIndexesInOrder(manager: EntityManager): Promise<void> {
  await execute(
    manager,
    `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`,
  );
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, rows, plainArray, UnnestColumns } from '../../database/sql/sql.js';
import { KEYS } from './concurrency-keys.js';
import { LowWaterMarks, WHOLE_QUEUE } from './low-water-marks.js';
import { findHeads, lockHeads, type LockedHead } from './queue-head.js';
import { RestrictedQueueRepository } from './restricted-queue.repository.js';
import { UNLIMITED } from './restricted-runs.js';
import { formatQueueNotification, QUEUE_CHANNEL, FREE_WORKERS_CHANNEL } from './queue-notifications.js';
import {
  CLAIM_BYTES,
  MACHINE_COLUMNS,
  QUEUE,
  QUEUE_NOTES,
  RESTRICTED,
  RUNS,
} from '../storage/run-columns.js';
import { isRestricted, type Run } from '../machine/run.js';
import type { CandidateQuery, LockedRun, QueuedRun, Reservation, Shape } from '../scheduling-strategy.js';

const PLACE = QUEUE.except('passedOverAt', 'reservedFor');
const NEW_ENTRIES = QUEUE.unnest(PLACE);
const PUT = `insert into ${QUEUE.name} (${QUEUE.columns(PLACE)})
       select ${QUEUE.columns(PLACE, 'v')}
         from ${NEW_ENTRIES.sql}
           on conflict (run_id) do update
          set priority = excluded.priority`;

const TABLES = { plain: QUEUE.name, restricted: RESTRICTED.name } as const;
type QueueKind = keyof typeof TABLES;

// A row with a key is changed by the transaction that holds the key, which admits runs of the key without a deadlock.
const HOLDS_KEY = `and (
              q.concurrency_key is null
              or exists (select from ${KEYS.name} k where k.key = q.concurrency_key for update skip locked)
            )`;

/** A statement for each of the queues. @param statement its condition is that of a row that may be changed */
function ofEach<T>(statement: (table: string, condition: string) => T): Readonly<Record<QueueKind, T>> {
  return { plain: statement(TABLES.plain, ''), restricted: statement(TABLES.restricted, HOLDS_KEY) };
}

const LOCK_ALL = ofEach(
  (table) => `select ${MACHINE_COLUMNS}, ${CLAIM_BYTES} as bytes
         from ${table} q
         join ${RUNS.name} r on r.id = q.run_id
        where q.run_id = any($1::uuid[])
        order by q.run_id
          for update skip locked`,
);

const RESERVE = ofEach((table, condition) => {
  const source = new UnnestColumns<'run_id' | 'worker_id'>([
    { key: 'run_id', name: 'run_id', type: 'uuid' },
    { key: 'worker_id', name: 'worker_id', type: 'text' },
  ]);
  const sql = `with free as (
         select q.run_id, v.worker_id
           from ${table} q
           join ${source.sql} on v.run_id = q.run_id
                ${condition}
          order by q.run_id
            for update of q skip locked
       )
       update ${table} q
          set reserved_for = free.worker_id
         from free
        where q.run_id = free.run_id`;
  return { sql, source };
});

const NOTE_PASSED_OVER = ofEach(
  (table, condition) => `with free as (
         select q.run_id
           from ${table} q
          where q.run_id = any($1::uuid[])
            and q.passed_over_at is null
            ${condition}
          order by q.run_id
            for update of q skip locked
       )
       update ${table} q
          set passed_over_at = $2::timestamptz
         from free
        where q.run_id = free.run_id`,
);

/**
 * SQL of the table `run_queue`: one narrow row per claimable run that every worker may get. Its order: priority descending,
 * age, id. What claims do with chosen runs, it does in the restricted queue as well.
 */
@Injectable()
export class QueueRepository {
  readonly #removed = new WeakSet<EntityManager>();

  constructor(
    private readonly marks: LowWaterMarks,
    readonly restricted: RestrictedQueueRepository,
  ) {}

  /** Puts pending runs into the queue; takes over the priority of those that are in it. */
  async put(manager: EntityManager, pending: readonly Run[]): Promise<void> {
    for (const run of pending) this.marks.put(run);
    await execute(manager, PUT, NEW_ENTRIES.params(pending, { runId: (run) => run.id }));
  }

  /** Whether the transaction has removed no runs, which a rollback would bring back. */
  mayForget(manager: EntityManager): boolean {
    return !this.#removed.has(manager);
  }

  async remove(manager: EntityManager, runIds: readonly string[]): Promise<void> {
    this.#removed.add(manager);
    await execute(
      manager,
      `delete from ${QUEUE.name}
        where run_id = any($1::uuid[])`,
      [plainArray(runIds)],
    );
  }

  /** Notifies every process, at the commit, of runs that were put; `count` of them are still claimable. */
  async announce(manager: EntityManager, put: readonly Run[], count: number): Promise<void> {
    const text = formatQueueNotification(count, put);
    await execute(manager, `select pg_notify('${QUEUE_CHANNEL}', $1::text)`, [text]);
  }

  /** Notifies every process, at the commit, of workers that no longer hold a run. */
  async announceFreeWorkers(manager: EntityManager, workerIds: readonly string[]): Promise<void> {
    await execute(manager, `select pg_notify('${FREE_WORKERS_CHANNEL}', id) from unnest($1::text[]) as id`, [
      workerIds,
    ]);
  }

  /** Whether the queue has no run, locked or not. */
  async isEmpty(manager: EntityManager): Promise<boolean> {
    const ranges = this.marks.isCurrent ? this.marks.ranges : WHOLE_QUEUE;
    return (await findHeads(manager, ranges, 1)).every((head) => head === null);
  }

  /** Locks up to `limit` runs at the head of the queue, with their rows in `runs`; skips those that others have locked. */
  async lockHead(manager: EntityManager, limit: number): Promise<LockedHead[]> {
    const { marks } = this;
    const scanAll = (): Promise<LockedHead[]> => lockHeads(manager, WHOLE_QUEUE, limit);
    if (!marks.isCurrent) return scanAll();
    // What this transaction has removed comes back if it fails.
    if (marks.isAdvanceDue && this.mayForget(manager)) {
      await marks.advance((ranges) => findHeads(manager, ranges));
    }
    let found = marks.isFullScanDue
      ? await marks.scanFully(scanAll)
      : await lockHeads(manager, marks.ranges, limit);
    if (found.length < limit && marks.mayScanFully) found = await marks.scanFully(scanAll);
    marks.claim(found);
    return found;
  }

  /**
   * Candidates for a strategy, and the runs reserved for these workers; none of the ids in `except`. Locks nothing.
   */
  list(
    manager: EntityManager,
    { limit, capacity = [UNLIMITED], free = [], passedOverBefore }: CandidateQuery,
    workerIds: readonly string[],
    except: readonly string[],
  ): Promise<QueuedRun[]> {
    return rows<QueuedRun>(
      manager,
      `select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}
         from (
           (select c.run_id
              from unnest($2::integer[], $3::integer[], $4::integer[]) as s (cpu, ram_mb, vram_mb)
             cross join lateral (${firstWithin('s')}) c)
            union
           (select c.run_id
              from unnest($5::integer[], $6::integer[], $7::integer[]) as s (cpu, ram_mb, vram_mb)
             cross join lateral (${firstWithin('s')}) c)
            union
           (select c.run_id
              from unnest($2::integer[], $3::integer[], $4::integer[]) as s (cpu, ram_mb, vram_mb)
             cross join lateral (${firstWithin('s', 'and passed_over_at is not null and passed_over_at <= $8::timestamptz')}) c)
            union
           (select run_id
              from ${QUEUE.name}
             where reserved_for is not null
               and reserved_for = any($9::text[]))
         ) c
         join ${QUEUE.name} q on q.run_id = c.run_id
         join ${RUNS.name} r on r.id = q.run_id
        where not q.run_id = any($10::uuid[])
        order by q.priority desc, q.created_at, q.run_id`,
      [
        limit,
        ...columnsOf(capacity),
        ...columnsOf(free),
        passedOverBefore?.toISOString() ?? null,
        workerIds,
        except,
      ],
    );
  }

  /** Locks those of the runs that are still in their queue; skips those that others have locked. */
  async lockAll(manager: EntityManager, runs: readonly Run[]): Promise<LockedRun[]> {
    const locked = ofQueues(runs).map(([queue, ids]) =>
      rows<LockedRun>(manager, LOCK_ALL[queue], [plainArray(ids)]),
    );
    return (await Promise.all(locked)).flat();
  }

  /** Serializes, until the transaction ends, the claims that depend on the free capacity of these workers. */
  async lockWorkers(manager: EntityManager, workerIds: readonly string[]): Promise<void> {
    await execute(
      manager,
      `select pg_advisory_xact_lock(key)
         from (
           select distinct hashtextextended(id, 0) as key
             from unnest($1::text[]) as id
            order by 1
         ) keys`,
      [workerIds],
    );
  }

  /** Sets or ends reservations of these runs; skips rows that others have locked. */
  async reserve(
    manager: EntityManager,
    reservations: readonly Reservation[],
    runs: readonly Run[],
  ): Promise<void> {
    const workerOf = new Map(reservations.map(({ runId, workerId }) => [runId, workerId]));
    const named = runs.filter(({ id }) => workerOf.has(id));
    const written = ofQueues(named).map(([queue, ids]) => {
      const { sql, source } = RESERVE[queue];
      return execute(
        manager,
        sql,
        source.params(ids.map((id) => ({ run_id: id, worker_id: workerOf.get(id) ?? null }))),
      );
    });
    await Promise.all(written);
  }

  /** Records when runs were first passed over; skips rows that others have locked. */
  async notePassedOver(manager: EntityManager, runs: readonly Run[], at: Date): Promise<void> {
    const written = ofQueues(runs).map(([queue, ids]) =>
      execute(manager, NOTE_PASSED_OVER[queue], [ids, at.toISOString()]),
    );
    await Promise.all(written);
  }
}

/** The ids of the runs of each queue; a queue without any is left out. */
function ofQueues(runs: readonly Run[]): [QueueKind, string[]][] {
  const [plain, restricted] = [runs.filter((run) => !isRestricted(run)), runs.filter(isRestricted)];
  const all: [QueueKind, readonly Run[]][] = [
    ['plain', plain],
    ['restricted', restricted],
  ];
  return all.flatMap(([queue, those]) => (those.length === 0 ? [] : [[queue, those.map(({ id }) => id)]]));
}

/** The first $1 runs of the queue that fit into the shape. */
function firstWithin(shape: string, condition = ''): string {
  return `select q.run_id
                from ${QUEUE.name} q
               where q.cpu <= ${shape}.cpu
                 and q.ram_mb <= ${shape}.ram_mb
                 and q.vram_mb <= ${shape}.vram_mb
                 ${condition}
               order by priority desc, created_at, run_id
               limit $1::integer`;
}

function columnsOf(shapes: readonly Shape[]): number[][] {
  return [shapes.map(({ cpu }) => cpu), shapes.map(({ ramMb }) => ramMb), shapes.map(({ vramMb }) => vramMb)];
}

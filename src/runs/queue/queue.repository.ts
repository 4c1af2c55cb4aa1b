import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { execute, plainArray, RowArrays, rows } from '../../database/sql/sql.js';
import { cpuMillisOf, gpusOf, type Run } from '../machine/run.js';
import type { Reservation } from '../scheduling-strategy.js';
import { PENDING_COLUMNS } from '../storage/run-columns.js';
import { ConcurrencyKeys, countByKey, HOLDS_KEY, type ConcurrencySlot } from './concurrency-keys.js';
import { isPlain, laneOf, PLAIN, type Lane, type ClaimableRun } from './lane.js';
import { LaneRepository } from './lane.repository.js';
import { Lanes } from './lanes.js';
import { LowWaterMarks, WHOLE_QUEUE } from './low-water-marks.js';
import { NOTHING_SETTLED, Pauses } from './pauses.js';
import { findHeads, findOpenHeads, readHeads, type PendingRun, type QueueHead } from './plain-lane.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** What a group changes in the queue and for the concurrency keys of its runs. */
export interface QueueChange {
  /** Claimable runs that enter the queue or change in it. */
  readonly entering: readonly Run[];
  /** Whether the insertion of new runs puts them into the queue. */
  readonly isFilledByInsertion: boolean;
  /** Those of the entering runs that it does not put there. */
  readonly unwritten: readonly Run[];
  readonly leaving: readonly Run[];
  /** Runs whose labels change, queued or not: other pauses may hold them. */
  readonly labelled: readonly Run[];
  /** Keys whose runs change, and by how many the number of those in execution changes; new slots are counted. */
  readonly keys: ReadonlyMap<string, number>;
  /** Containers that may still be executed after a change. */
  readonly slots: readonly ConcurrencySlot[];
}

/** What is given of a row. */
type Entry = Exclude<
  keyof QueueEntryEntity,
  'alike' | 'isAdmitted' | 'isPaused' | 'passedOverAt' | 'reservedFor'
>;

const PUT_PLAIN = `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select v.*
         from unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::integer[], $5::integer[], $6::bigint[])
              as v (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
           on conflict (run_id) do update
          set priority = excluded.priority,
              ram_mb = excluded.ram_mb,
              lane = excluded.lane`;
const PLAIN_ENTRIES =
  RowArrays.of<Exclude<Entry, 'gpus' | 'lane' | 'concurrencyKey' | 'concurrencyLimit'>>(PUT_PLAIN);

const PUT = `insert into queue (
         run_id, priority, created_at, ram_mb, vram_mb, cpu_millis, gpus, lane, concurrency_key, concurrency_limit, alike, is_admitted
       )
       select v.*,
              case
                when v.concurrency_key is not null
                then hashtextextended(concat_ws(' ', v.lane, v.concurrency_limit, v.cpu_millis, v.ram_mb, v.vram_mb, v.gpus), 0)
              end,
              v.concurrency_key is null
         from unnest(
                $1::uuid[], $2::integer[], $3::timestamptz[], $4::integer[], $5::integer[], $6::bigint[], $7::smallint[], $8::uuid[],
                $9::text[], $10::integer[]
              ) as v (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis, gpus, lane, concurrency_key, concurrency_limit)
           on conflict (run_id) do update
          set priority = excluded.priority,
              ram_mb = excluded.ram_mb,
              lane = excluded.lane,
              alike = excluded.alike`;
const ENTRIES = RowArrays.of<Entry>(PUT);

/** For so long after a claim passed paused runs, none looks for runs before the marks, in milliseconds. */
const PASSED_MS = 30_000;

/** For so long after a claim met a run that somebody else held, claims lock what they read, in milliseconds. */
const OTHERS_MS = 60_000;

/**
 * SQL of the table `queue`: one narrow row per claimable run. Its order within a lane: priority descending, age, id. A
 * transaction locks runs first, then lanes, keys, and rows of the queue.
 */
@Injectable()
export class QueueRepository {
  readonly #removed = new WeakSet<EntityManager>();
  /** Runs that became claimable because claims of the transaction have marked paused ones of their keys. */
  readonly #admitted = new WeakMap<EntityManager, readonly ClaimableRun[]>();
  #metOthersAt = -Infinity;
  #passedAt = -Infinity;

  constructor(
    private readonly marks: LowWaterMarks,
    private readonly lanes: LaneRepository,
    private readonly active: Lanes,
    readonly keys: ConcurrencyKeys,
    readonly pauses: Pauses,
  ) {
    pauses.onRelease(() => marks.clear());
  }

  /**
   * Writes the change; the caller has locked the runs.
   * @returns the runs that claims may read now, without waiting for the statements if no lane or key is concerned
   */
  async write(
    manager: EntityManager,
    { entering, unwritten, leaving, labelled, keys, slots }: QueueChange,
  ): Promise<{ readonly claimable: readonly ClaimableRun[]; readonly written: Promise<unknown> }> {
    const lanes = await this.lanes.ensure(manager, entering);
    if (lanes.length > 0) this.active.expect(lanes);
    for (const run of entering) if (isPlain(run)) this.marks.put(run);
    const written = Promise.all([
      keys.size > 0 && this.keys.add(manager, keys),
      slots.length > 0 && this.keys.holdSlots(manager, slots),
      leaving.length > 0 && this.remove(manager, leaving),
      unwritten.length > 0 && this.put(manager, unwritten),
    ]);
    const laneById = new Map<string, Lane>([PLAIN, ...lanes].map((lane) => [lane.id, lane]));
    const free = entering.flatMap((run): ClaimableRun[] => {
      const { id, priority, createdAt, concurrencyKey } = run;
      const lane = laneById.get(laneOf(run));
      return concurrencyKey === null && lane ? [{ id, priority, createdAt, lane }] : [];
    });
    // Together: a connection that breaks fails both.
    const [{ paused, claimable }] = this.pauses.mayExist
      ? await Promise.all([this.pauses.apply(manager, [...entering, ...labelled]), written])
      : [NOTHING_SETTLED];
    const open = [...free.filter(({ id }) => !paused.has(id)), ...claimable];
    if (keys.size === 0) return { claimable: open, written };
    const [admitted] = await Promise.all([this.keys.admit(manager, [...keys.keys()]), written]);
    return { claimable: [...open, ...admitted], written };
  }

  /** Puts runs into the queue, or changes their priority, RAM and lane. One with a key is not admitted yet, or stays as it is. */
  async put(manager: EntityManager, entering: readonly Run[]): Promise<void> {
    const [sql, params] = entering.every(isPlain)
      ? [PUT_PLAIN, PLAIN_ENTRIES.params(entering, { runId: idOf, cpuMillis: cpuMillisOf })]
      : [PUT, ENTRIES.params(entering, { runId: idOf, cpuMillis: cpuMillisOf, gpus: gpusOf, lane: laneOf })];
    await execute(manager, sql, params);
  }

  /** Whether the transaction has neither removed nor paused runs. */
  mayForget(manager: EntityManager): boolean {
    return !this.#removed.has(manager);
  }

  async remove(manager: EntityManager, runs: readonly Pick<Run, 'id'>[]): Promise<void> {
    this.#removed.add(manager);
    await execute(
      manager,
      `delete from queue
        where run_id = any($1::uuid[])`,
      [plainArray(runs.map(({ id }) => id))],
    );
  }

  /** Counts runs that claims got, and that their assignment removes, for their keys, which the transaction holds. */
  async noteTaken(manager: EntityManager, assigned: readonly Run[]): Promise<void> {
    this.#removed.add(manager);
    const executing = countByKey(assigned);
    if (executing.size > 0) await this.keys.add(manager, executing);
  }

  /** Adapts what the keys of taken runs admit. @returns runs that claims may read now */
  async admitAfter(manager: EntityManager, taken: readonly Run[]): Promise<readonly ClaimableRun[]> {
    const keys = [...countByKey(taken).keys()];
    const admitted = this.#admitted.get(manager) ?? [];
    return keys.length === 0 ? admitted : [...admitted, ...(await this.keys.admit(manager, keys))];
  }

  /**
   * Whether a claim locks what it reads and skips what others have locked: other processes serve, or somebody else held a run
   * a moment ago, or the claim may mark rows of paused runs, and must not wait for runs then.
   * @param isRetry whether the claim met such a run
   */
  claimsLock(isRetry: boolean): boolean {
    if (isRetry) this.#metOthersAt = monotonicMs();
    return !this.marks.isAlone || this.pauses.mayExist || monotonicMs() < this.#metOthersAt + OTHERS_MS;
  }

  /** Those of the runs that no pause holds. The others are marked, so that later claims do not read them. */
  async leavePaused<R extends Pick<Run, 'id'>>(
    manager: EntityManager,
    runs: readonly R[],
  ): Promise<readonly R[]> {
    const { held, claimable } = await this.pauses.settle(manager, runs);
    if (held.size === 0) return runs;
    this.#removed.add(manager);
    this.#admitted.set(manager, [...(this.#admitted.get(manager) ?? []), ...claimable]);
    return runs.filter(({ id }) => !held.has(id));
  }

  /** Moves the marks of the plain lane past a bounded number of paused runs, marked or not. The transaction must not have removed runs. */
  async passPaused(manager: EntityManager): Promise<void> {
    if (!this.marks.isCurrent) return;
    this.pauses.notePassed();
    this.#passedAt = monotonicMs();
    await this.marks.advance((ranges) => findOpenHeads(manager, ranges));
  }

  /** Whether the plain lane has no run, locked or not. */
  async isPlainEmpty(manager: EntityManager): Promise<boolean> {
    const ranges = this.marks.isCurrent ? this.marks.ranges : WHOLE_QUEUE;
    return (await findHeads(manager, ranges, 1)).every((head) => head === null);
  }

  /** Up to `limit` runs at the head of the plain lane, to be assigned. @param isLocked as {@link readHeads} */
  async readFirst(manager: EntityManager, limit: number, isLocked: boolean): Promise<QueueHead[]> {
    const { marks } = this;
    const scanAll = (): Promise<QueueHead[]> => readHeads(manager, WHOLE_QUEUE, limit, isLocked);
    if (!marks.isCurrent) return scanAll();
    if (marks.isAdvanceDue && this.mayForget(manager)) {
      await marks.advance((ranges) => findHeads(manager, ranges));
    }
    const mayScanFully = monotonicMs() >= this.#passedAt + PASSED_MS;
    let found =
      mayScanFully && marks.isFullScanDue
        ? await marks.scanFully(scanAll)
        : await readHeads(manager, marks.ranges, limit, isLocked);
    if (found.length < limit && mayScanFully && marks.mayScanFully) found = await marks.scanFully(scanAll);
    marks.claim(found);
    return found;
  }

  /** Those of the runs that are still in the queue, to be assigned. @param isLocked as {@link readHeads} */
  async readAll(manager: EntityManager, runs: readonly Run[], isLocked: boolean): Promise<PendingRun[]> {
    if (runs.length === 0) return [];
    return rows(
      manager,
      `select ${PENDING_COLUMNS}
         from queue q
         join runs r on r.id = q.run_id
        where q.run_id = any($1::uuid[])
        order by q.run_id
          ${isLocked ? 'for update skip locked' : ''}`,
      [plainArray(runs.map(({ id }) => id))],
    );
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

  /** Sets or ends reservations; skips rows that others have locked. */
  async reserve(manager: EntityManager, reservations: readonly Reservation[]): Promise<void> {
    await execute(
      manager,
      `with free as (
         select q.run_id
           from queue q
          where q.run_id = any($1::uuid[])
            and ${HOLDS_KEY}
          order by q.run_id
            for update of q skip locked
       )
       update queue
          set reserved_for = ($2::text[])[array_position($1::uuid[], run_id)]
        where run_id = any(array(select run_id from free))`,
      [plainArray(reservations.map(({ runId }) => runId)), reservations.map(({ workerId }) => workerId)],
    );
  }

  /** Records when runs were first passed over; skips rows that others have locked. */
  async notePassedOver(manager: EntityManager, runIds: readonly string[], at: Date): Promise<void> {
    await execute(
      manager,
      `with free as (
         select q.run_id
           from queue q
          where q.run_id = any($1::uuid[])
            and q.passed_over_at is null
            and ${HOLDS_KEY}
          order by q.run_id
            for update of q skip locked
       )
       update queue
          set passed_over_at = $2::timestamptz
        where run_id = any(array(select run_id from free))`,
      [plainArray(runIds), at.toISOString()],
    );
  }
}

function idOf({ id }: Run): string {
  return id;
}

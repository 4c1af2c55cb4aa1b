import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { SharedReading } from '../../common/shared-reading.js';
import { PauseEntity } from '../../database/entities/queue.entity.js';
import { CommitNotices, type NoticeSource } from '../../database/notices/commit-notices.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, plainArray, rows, type SqlExecutor } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import { ConcurrencyKeys, HOLDS_KEY } from './concurrency-keys.js';
import type { ClaimableRun, Lane, QueuePosition } from './lane.js';

export const PAUSES = new EntityTable(PauseEntity);

/** A pause as it is stored. */
export interface StoredPause extends Readonly<PauseEntity> {
  /** Milliseconds until it ends, by the database's clock; null: it has no end. */
  readonly endsInMs: number | null;
  /** Id of the transaction that wrote it last. */
  readonly writtenBy: string;
}

/** A pause that holds a run. */
export type HoldingPause = Readonly<Pick<PauseEntity, 'name' | 'reason' | 'untilAt'>>;

/** What became of rows of the queue. */
interface Settled {
  /** Ids of runs whose rows are to be marked. */
  readonly paused: ReadonlySet<string>;
  /** Ids of these, and of all others while a pause is of all runs. */
  readonly held: ReadonlySet<string>;
  /** Runs that claims may read now and could not before. */
  readonly claimable: readonly ClaimableRun[];
  readonly written: number;
  /** Rows that were not written, because others had locked them. */
  readonly skipped: number;
}

/** Of a reading, what this process knows until the next change. */
interface Known {
  readonly count: number;
  readonly holdsAll: boolean;
}

/** Of no rows. */
export const NOTHING_SETTLED: Settled = {
  paused: new Set(),
  held: new Set(),
  claimable: [],
  written: 0,
  skipped: 0,
};

/** Transactions that mark rows of the queue hold it in shared mode; who takes it alone waits for those that have seen other pauses. */
const MARKING_LOCK = '3908512264410937';

/** Whether the pause `p` has not ended. It advances during a transaction, as the time at which a job ends the pause does. */
export const IS_ACTIVE = '(p.until_at is null or p.until_at > statement_timestamp())';

/** Whether the pause `p` is of all runs. Their rows are not marked: claims get nothing. */
export const IS_OF_ALL = 'num_nonnulls(p.definitions, p.labels, p.selector, p.schedules, p.creators) = 0';

const hasTerm = (kind: string, values: string): string => `(
            ${values} is null
            or exists (
                 select from unnest(${values}) as v (name)
                   join run_terms t on t.run_id = r.id and t.term = '${kind}:' || v.name
               )
          )`;

/** Whether the pause `p` holds `runs r` if it is pending. */
export const HOLDS = `${IS_ACTIVE}
          and (p.definitions is null or r.definition_id = any(p.definitions))
          and (p.creators is null or r.created_by = any(p.creators))
          and (p.schedules is null or r.schedule_id = any(p.schedules))
          and ${hasTerm('label', 'p.labels')}
          and ${hasTerm('selector', 'p.selector')}`;

// No two of these sets are joined but by an index: the planner knows nothing of their sizes.
const SETTLE = `with given as materialized (
         select q.run_id, q.is_paused as was_paused, exists (select from pauses p where not ${IS_OF_ALL} and ${HOLDS}) as is_paused,
                exists (select from pauses p where ${IS_OF_ALL} and ${IS_ACTIVE}) as is_held
           from queue q
           join runs r on r.id = q.run_id
          where q.run_id = any($1::uuid[])
       ),
       free as materialized (
         select q.run_id, g.is_paused
           from given g
           join queue q on q.run_id = g.run_id
          where q.is_paused <> g.is_paused
            and ${HOLDS_KEY}
          order by q.run_id
            for update of q skip locked
       ),
       written as (
         update queue q
            set is_paused = f.is_paused,
                is_admitted = not f.is_paused and q.concurrency_key is null,
                reserved_for = case when f.is_paused then null else q.reserved_for end
           from free f
          where q.run_id = f.run_id
      returning q.*
       )
       select g.run_id as id, g.is_paused as "isPaused", g.is_paused or g.is_held as "isHeld",
              g.is_paused <> g.was_paused as "isDue", null::boolean as "isAdmitted", null as key, null::integer as priority,
              null::timestamptz as "createdAt", null::uuid as lane, null::text[] as required
         from given g
        union all
       select w.run_id, w.is_paused, w.is_paused, false, w.is_admitted, w.concurrency_key, w.priority, w.created_at, w.lane,
              coalesce((select l.required from lanes l where l.id = w.lane), '{}')
         from written w`;

/** A run in the queue, and once more with `lane` if its row was written. */
interface SettledRow extends QueuePosition {
  readonly isPaused: boolean;
  readonly isHeld: boolean;
  /** Whether the row was to be written. */
  readonly isDue: boolean;
  readonly isAdmitted: boolean | null;
  readonly key: string | null;
  readonly lane: string | null;
  readonly required: Lane['required'];
}

const FIND = `select r.id, p.name, p.reason, p.until_at as "untilAt"
         from runs r
         join pauses p on ${HOLDS}
        where r.id = any($1::uuid[])
        order by p.name`;

/**
 * The pauses, and the rows of the queue that they hold.
 *
 * It remembers whether there are any, and whether one is of all runs. A process learns of a change by the notice of its commit, and
 * reads the pauses then. While it does, before it has read them at all, and while notices do not arrive, there may be some: then, and
 * while there are, claims and commands that put runs into the queue ask the database which of their runs are held, and mark the
 * rows of these. The job `pauses` does the same for all other rows after each change. Until it has, claims pass rows that they do not mark, by the
 * low-water marks.
 * It is wrong until a notice arrives: until then other processes may assign a run that is held, or leave alone one that is not.
 * Nothing is lost then: a row that is marked in vain is one that the job has still to read.
 * Empty, it costs nothing.
 * Proven by test/integration/queue/pauses.spec.ts.
 */
@Injectable()
export class Pauses implements OnModuleInit, OnModuleDestroy {
  readonly #releaseListeners = new Set<() => void>();
  readonly #readListeners = new Set<(found: readonly StoredPause[]) => void>();
  readonly #reading = new SharedReading(() => this.#read());
  #known: Known | null = null;
  #heldAll = false;
  #hasPassed = false;
  #changes = 0;
  #unsubscribe: (() => void) | undefined;

  /** @param notices without them there are no pauses */
  constructor(
    private readonly keys: ConcurrencyKeys,
    private readonly dataSource: DataSource,
    @Inject(CommitNotices) private readonly notices?: NoticeSource,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices?.subscribe((notice) => {
      if (notice !== null && notice.pauses === undefined) return;
      this.#changes += 1;
      this.#known = null;
      // The job reads them again.
      void this.refresh().catch(() => undefined);
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  /** Whether pauses may hold runs. */
  get mayExist(): boolean {
    return this.notices !== undefined && (!this.notices.isListening || this.#known?.count !== 0);
  }

  /** The number of pauses; undefined: unknown. */
  get count(): number | undefined {
    return this.#known?.count;
  }

  /** Whether a pause holds all runs, as far as is known. */
  get holdAll(): boolean {
    return this.notices?.isListening === true && this.#known?.holdsAll === true;
  }

  /** Claims pass runs that are held, and do not look for them again: when the pauses are read next, some may be free. */
  notePassed(): void {
    this.#hasPassed = true;
  }

  /** Calls the listener when no pause holds all runs any longer, or runs that claims have passed may be free. @returns a function that unsubscribes */
  onRelease(listener: () => void): () => void {
    this.#releaseListeners.add(listener);
    return () => void this.#releaseListeners.delete(listener);
  }

  /** Calls the listener with the pauses whenever they are read. @returns a function that unsubscribes */
  onRead(listener: (found: readonly StoredPause[]) => void): () => void {
    this.#readListeners.add(listener);
    return () => void this.#readListeners.delete(listener);
  }

  /** Reads the pauses, those that have ended included. @throws errors of the database */
  refresh(): Promise<readonly StoredPause[]> {
    return this.#reading.next();
  }

  /** As {@link apply}, if there may be pauses. */
  async settle(manager: EntityManager, runs: readonly Pick<Run, 'id'>[]): Promise<Settled> {
    return this.mayExist ? this.apply(manager, runs) : NOTHING_SETTLED;
  }

  /**
   * Marks those of the runs in the queue that pauses hold, and removes the marks of the others. Skips rows, and those of keys, that
   * other transactions have locked.
   */
  async apply(manager: EntityManager, runs: readonly Pick<Run, 'id'>[]): Promise<Settled> {
    if (runs.length === 0) return NOTHING_SETTLED;
    await execute(manager, `select pg_advisory_xact_lock_shared($1::bigint)`, [MARKING_LOCK]);
    const found = await rows<SettledRow>(manager, SETTLE, [plainArray(runs.map(({ id }) => id))]);
    const keys = new Set(found.flatMap(({ key }) => key ?? []));
    const admitted = keys.size === 0 ? [] : await this.keys.admit(manager, [...keys]);
    const written = found.filter(({ lane }) => lane !== null).length;
    const free = found.flatMap(({ id, priority, createdAt, lane, required, isAdmitted }): ClaimableRun[] =>
      lane !== null && isAdmitted === true ? [{ id, priority, createdAt, lane: { id: lane, required } }] : [],
    );
    return {
      paused: new Set(found.flatMap(({ id, isPaused }) => (isPaused ? [id] : []))),
      held: new Set(found.flatMap(({ id, isHeld }) => (isHeld ? [id] : []))),
      claimable: [...free, ...admitted],
      written,
      skipped: found.filter(({ isDue }) => isDue).length - written,
    };
  }

  /** The pauses that hold these runs while they are pending, by the id of the run. */
  async find(
    executor: SqlExecutor,
    runIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly HoldingPause[]>> {
    const found = new Map<string, HoldingPause[]>();
    if (runIds.length === 0 || !this.mayExist) return found;
    const held = await rows<HoldingPause & { readonly id: string }>(executor, FIND, [plainArray(runIds)]);
    for (const { id, ...pause } of held) found.set(id, [...(found.get(id) ?? []), pause]);
    return found;
  }

  /** Waits for the transactions that mark rows, so that the next statement sees what they have marked by other pauses than those of now. */
  async awaitMarking(manager: EntityManager): Promise<void> {
    await execute(manager, `select pg_advisory_xact_lock($1::bigint)`, [MARKING_LOCK]);
  }

  async #read(): Promise<readonly StoredPause[]> {
    const changes = this.#changes;
    const isListening = this.notices?.isListening === true;
    const found = await rows<StoredPause & { readonly isOfAll: boolean }>(
      this.dataSource,
      `select ${PAUSES.select('p')}, p.xmin as "writtenBy", ${IS_OF_ALL} as "isOfAll",
              (extract(epoch from p.until_at - statement_timestamp()) * 1000)::float8 as "endsInMs"
         from pauses p
        order by p.name`,
    );
    for (const listener of this.#readListeners) listener(found);
    const hasPassed = this.#hasPassed;
    this.#hasPassed = false;
    if (hasPassed) for (const listener of this.#releaseListeners) listener();
    if (!isListening || changes !== this.#changes) return found;
    const active = found.filter(isActive);
    const heldAll = this.#heldAll;
    this.#heldAll = active.some(({ isOfAll }) => isOfAll);
    this.#known = { count: active.length, holdsAll: this.#heldAll };
    if (heldAll && !this.#heldAll) for (const listener of this.#releaseListeners) listener();
    return found;
  }
}

/** Whether the pause had not ended when it was read. */
export function isActive({ endsInMs }: StoredPause): boolean {
  return endsInMs === null || endsInMs > 0;
}

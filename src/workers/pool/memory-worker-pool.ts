import { LessThanOrEqual, type Repository } from 'typeorm';
import type { Author } from '../../auth/audit-log.js';
import type { WorkerAbsenceEntity } from '../../database/entities/worker.entity.js';
import { inBatches } from '../../database/sql/in-batches.js';
import { tooManyWorkers, tooManyWorkersOfKey } from '../workers.errors.js';
import {
  summariseEngines,
  type EngineUse,
  FORGET_AFTER_MS,
  FULL_POOL_TIMEOUTS,
  groupOf,
  idleForgetMs,
  NO_KEY,
  type Heartbeat,
  type Holding,
  type PooledWorker,
  type PoolLimits,
  type SilentWorker,
  noneUnable,
  noWorkers,
  type UnableCounts,
  type WorkerCounts,
  type WorkerPool,
} from './worker-pool.js';
import { bytesForRuns, fitRunningRuns } from './worker-bytes.js';
import type { WorkerDrainsRepository } from './worker-drains.repository.js';

/** Departed runs that are kept for a worker; with more, its reports are ignored. */
export const MAX_DEPARTED = 5000;

/** The runs in a worker's reports during the last worker timeout. */
class RunReports {
  #last: number | undefined;
  #previous: number | undefined;
  #running: ReadonlySet<string> = new Set();
  /** Runs missing in the newest report, with the time of the last report with them, ordered by it. */
  readonly #departed = new Map<string, number>();
  /** Time of the newest report of which runs were dropped. */
  #droppedAt: number | undefined;

  /**
   * @param at epoch milliseconds
   * @param from start of the worker timeout
   */
  add(runIds: readonly string[], at: number, from: number): void {
    const running = new Set(runIds);
    for (const id of this.#running) {
      if (running.has(id) || this.#last === undefined) continue;
      this.#departed.delete(id);
      this.#departed.set(id, this.#last);
    }
    for (const id of running) this.#departed.delete(id);
    for (const [id, time] of this.#departed) {
      if (time >= from) break;
      this.#departed.delete(id);
    }
    if (this.#departed.size > MAX_DEPARTED) {
      this.#departed.clear();
      this.#droppedAt = this.#last;
    }
    this.#running = running;
    this.#previous = this.#last;
    this.#last = at;
  }

  /** Ids that are kept. */
  get size(): number {
    return this.#running.size + this.#departed.size;
  }

  /** Forgets the ids; until the worker timeout is over, no run counts as missing in the reports. */
  drop(): void {
    this.#running = new Set();
    this.#departed.clear();
    this.#droppedAt = this.#last;
  }

  /** Whether there were at least two reports since the time, none with the run. */
  areWithout(runId: string, from: number): boolean {
    if (this.#previous === undefined || this.#previous < from) return false;
    if (this.#droppedAt !== undefined && this.#droppedAt >= from) return false;
    const departedAt = this.#departed.get(runId);
    return !this.#running.has(runId) && (departedAt === undefined || departedAt < from);
  }
}

/** Drains that one statement removes. */
const BATCH = 500;

/** Ids of runs in the reports of all workers; beyond, the reports of a worker are dropped. About 150 bytes each. */
const MAX_REPORTED_IDS = 500_000;

interface Entry {
  readonly worker: Omit<PooledWorker, 'isActive' | 'isDraining' | 'awayUntil'>;
  readonly reports: RunReports;
  readonly keyId: string;
  /** Whether a heartbeat has reported a run. */
  readonly hadRun: boolean;
  /** The worker as it was last seen; null: not since its heartbeat. Lists of thousands are read many times a second. */
  view: PooledWorker | null;
}

/** The pool of a single server process, in memory; drains and absences are in the database. */
export class MemoryWorkerPool implements WorkerPool {
  /** Ordered by the last heartbeat, the oldest first. */
  readonly #entries = new Map<string, Entry>();
  /** Ids of the entries in their order; null: to be sorted again, as workers came or went. */
  #sortedIds: readonly string[] | null = null;
  readonly #draining: Set<string>;
  #reportedIds = 0;
  /** Number of entries by API key. */
  readonly #byKey = new Map<string, number>();
  /** Until when workers are away. */
  readonly #away: Map<string, Date>;
  /** Changes of drains and absences run one after the other, so that tables and memory agree. */
  #lastChange: Promise<void> = Promise.resolve();

  private constructor(
    private readonly timeoutMs: number,
    private readonly drains: WorkerDrainsRepository,
    private readonly absences: Repository<WorkerAbsenceEntity>,
    private readonly limits: PoolLimits,
    private readonly now: () => number,
    draining: readonly string[],
    away: readonly WorkerAbsenceEntity[],
  ) {
    this.#draining = new Set(draining);
    this.#away = new Map(away.map(({ workerId, until }) => [workerId, until]));
  }

  /** An empty pool with the stored drains and absences. @param now epoch milliseconds */
  static async open(
    timeoutMs: number,
    drains: WorkerDrainsRepository,
    absences: Repository<WorkerAbsenceEntity>,
    limits: PoolLimits,
    now: () => number = Date.now,
  ): Promise<MemoryWorkerPool> {
    const draining = await drains.list();
    return new MemoryWorkerPool(timeoutMs, drains, absences, limits, now, draining, await absences.find());
  }

  async heartbeat(heartbeat: Heartbeat, keyId = NO_KEY): Promise<PooledWorker> {
    const { maxWorkers, maxWorkersPerKey, maxWorkerBytes } = this.limits;
    const now = this.now();
    this.#forgetSilent();
    const known = this.#entries.get(heartbeat.id);
    const isKeyFull = (): boolean => (this.#byKey.get(keyId) ?? 0) >= maxWorkersPerKey;
    if (!known && (this.#entries.size >= maxWorkers || isKeyFull())) {
      this.#forgetSilent(FULL_POOL_TIMEOUTS * this.timeoutMs);
      if (isKeyFull()) throw tooManyWorkersOfKey(maxWorkersPerKey);
      if (this.#entries.size >= maxWorkers) throw tooManyWorkers(maxWorkers);
    }
    const reports = known?.reports ?? new RunReports();
    if (heartbeat.runningOps) {
      const ids = heartbeat.runningOps.map(({ id }) => id);
      this.#reportedIds -= reports.size;
      reports.add(ids, now, now - this.timeoutMs);
      if (this.#reportedIds + reports.size > MAX_REPORTED_IDS) reports.drop();
      this.#reportedIds += reports.size;
    }
    const at = new Date(now);
    const { runningOps, awayMs, ...description } = heartbeat;
    const worker = {
      runningOps: runningOps
        ? fitRunningRuns(runningOps, bytesForRuns(heartbeat, maxWorkerBytes))
        : (known?.worker.runningOps ?? []),
      createdAt: known?.worker.createdAt ?? at,
      lastHeartbeatAt: at,
      ...description,
    };
    const hadRun = known?.hadRun === true || (runningOps ?? []).length > 0;
    const entry: Entry = { worker, reports, keyId, hadRun, view: null };
    if (!known) this.#sortedIds = null;
    if (known) this.#count(known.keyId, -1);
    this.#count(keyId, 1);
    // Moves it to the end.
    this.#entries.delete(worker.id);
    this.#entries.set(worker.id, entry);
    const until = awayMs === undefined ? null : new Date(now + awayMs);
    if (until !== null || this.#away.has(worker.id)) {
      await this.#change(() => this.#writeAbsence(worker.id, until));
    }
    return this.#view(entry);
  }

  find(id: string): Promise<PooledWorker | null> {
    const entry = this.#get(id);
    return Promise.resolve(entry ? this.#view(entry) : null);
  }

  findAll(ids: readonly string[]): Promise<ReadonlyMap<string, PooledWorker>> {
    const found = new Map<string, PooledWorker>();
    for (const id of ids) {
      const entry = this.#get(id);
      if (entry) found.set(id, this.#view(entry));
    }
    return Promise.resolve(found);
  }

  list(): Promise<PooledWorker[]> {
    return this.listAfter('', Infinity);
  }

  listAfter(after: string, limit: number): Promise<PooledWorker[]> {
    this.#forgetSilent();
    this.#sortedIds ??= [...this.#entries.keys()].toSorted();
    const workers: PooledWorker[] = [];
    for (const id of this.#sortedIds) {
      const entry = id > after ? this.#entries.get(id) : undefined;
      if (entry && workers.push(this.#view(entry)) >= limit) break;
    }
    return Promise.resolve(workers);
  }

  async remove(id: string): Promise<void> {
    const entry = this.#entries.get(id);
    if (entry) this.#delete(id, entry);
    if (this.#away.has(id)) await this.#change(() => this.#writeAbsence(id, null));
  }

  count(): Promise<WorkerCounts> {
    this.#forgetSilent();
    const counts = noWorkers();
    for (const entry of this.#entries.values()) counts[groupOf(this.#view(entry))] += 1;
    return Promise.resolve(counts);
  }

  async countUnable(): Promise<UnableCounts> {
    const counts = noneUnable();
    const active = (await this.list()).filter(({ isActive }) => isActive);
    for (const { ability } of active.flatMap(({ unable }) => unable)) counts[ability] += 1;
    return counts;
  }

  async listEngines(limit: number): Promise<EngineUse[]> {
    return summariseEngines(await this.list(), limit);
  }

  async setDraining(id: string, draining: boolean, by: Author): Promise<PooledWorker | null> {
    if (!this.#get(id)) return null;
    await this.#change(() => this.#writeDrain(id, draining, by));
    return this.find(id);
  }

  findSilent(ids: readonly string[]): Promise<SilentWorker[]> {
    const from = this.now() - this.timeoutMs;
    return Promise.resolve(
      ids.flatMap((id) => {
        if (this.#absenceOf(id) !== null) return [];
        const lastHeartbeatAt = this.#get(id)?.worker.lastHeartbeatAt ?? null;
        return lastHeartbeatAt === null || lastHeartbeatAt.getTime() < from ? [{ id, lastHeartbeatAt }] : [];
      }),
    );
  }

  findUnreported(holdings: readonly Holding[]): Promise<Holding[]> {
    const from = this.now() - this.timeoutMs;
    return Promise.resolve(
      holdings.filter(({ runId, workerId }) => this.#get(workerId)?.reports.areWithout(runId, from) === true),
    );
  }

  async forget(stop?: AbortSignal): Promise<number> {
    const before = this.#entries.size;
    this.#forgetSilent();
    this.#forgetSilent(idleForgetMs(this.timeoutMs), ({ hadRun }) => !hadRun);
    let removed = before - this.#entries.size;
    const seen = [...this.#draining].flatMap((id) => {
      const entry = this.#entries.get(id);
      return entry ? [{ id, at: entry.worker.lastHeartbeatAt }] : [];
    });
    await this.drains.markSeen(seen);
    for (const [id, until] of this.#away) if (until.getTime() <= this.now()) this.#away.delete(id);
    await this.absences.delete({ until: LessThanOrEqual(new Date(this.now())) });
    const limit = new Date(this.now() - FORGET_AFTER_MS);
    removed += await inBatches(BATCH, stop, async () => {
      const ids = await this.drains.removeUnseen(limit, BATCH);
      for (const id of ids) this.#draining.delete(id);
      return ids.length;
    });
    return removed;
  }

  #change(write: () => Promise<void>): Promise<void> {
    const done = this.#lastChange.then(write);
    this.#lastChange = done.catch(() => undefined);
    return done;
  }

  async #writeAbsence(id: string, until: Date | null): Promise<void> {
    if (until === null) {
      await this.absences.delete({ workerId: id });
      this.#away.delete(id);
    } else {
      await this.absences.upsert({ workerId: id, until }, ['workerId']);
      this.#away.set(id, until);
    }
  }

  #absenceOf(id: string): Date | null {
    const until = this.#away.get(id);
    return until !== undefined && until.getTime() > this.now() ? until : null;
  }

  async #writeDrain(id: string, draining: boolean, by: Author): Promise<void> {
    if (draining) {
      await this.drains.insert(id, new Date(this.now()), by);
      this.#draining.add(id);
    } else {
      await this.drains.remove(id, by);
      this.#draining.delete(id);
    }
  }

  #get(id: string): Entry | undefined {
    this.#forgetSilent();
    return this.#entries.get(id);
  }

  #view(entry: Entry): PooledWorker {
    const { worker, view } = entry;
    const awayUntil = this.#absenceOf(worker.id);
    const isActive = awayUntil === null && this.now() - worker.lastHeartbeatAt.getTime() <= this.timeoutMs;
    const isDraining = this.#draining.has(worker.id);
    if (view?.isActive === isActive && view.isDraining === isDraining && view.awayUntil === awayUntil)
      return view;
    // Fields added after a spread are slower than the spread.
    entry.view = { isActive, isDraining, awayUntil, ...worker };
    return entry.view;
  }

  #forgetSilent(afterMs = FORGET_AFTER_MS, isMeant: (entry: Entry) => boolean = () => true): void {
    const limit = this.now() - afterMs;
    for (const [id, entry] of this.#entries) {
      if (entry.worker.lastHeartbeatAt.getTime() > limit) return;
      if (isMeant(entry)) this.#delete(id, entry);
    }
  }

  #count(keyId: string, change: 1 | -1): void {
    const count = (this.#byKey.get(keyId) ?? 0) + change;
    if (count === 0) this.#byKey.delete(keyId);
    else this.#byKey.set(keyId, count);
  }

  #delete(id: string, { reports, keyId }: Entry): void {
    this.#count(keyId, -1);
    this.#reportedIds -= reports.size;
    this.#entries.delete(id);
    this.#sortedIds = null;
  }
}

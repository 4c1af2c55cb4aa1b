import { inBatches } from '../../database/in-batches.js';
import { RunReports } from './run-reports.js';
import type { WorkerDrainsRepository } from './worker-drains.repository.js';
import {
  FORGET_AFTER_MS,
  groupOf,
  type Heartbeat,
  type Holding,
  type PooledWorker,
  type SilentWorker,
  type WorkerCounts,
  type WorkerPool,
} from './worker-pool.js';

/** Drains that one statement ends at most. */
const BATCH = 500;

interface Entry {
  readonly said: Omit<PooledWorker, 'isActive' | 'isDraining'>;
  readonly reports: RunReports;
}

/** The pool of a single server process, in its memory; the drains alone are in the database. */
export class MemoryWorkerPool implements WorkerPool {
  /** In order of the newest heartbeat, the most silent worker first. */
  readonly #entries = new Map<string, Entry>();
  readonly #draining: Set<string>;
  /** One change of a drain after the other, or the table could end up saying something else than the set. */
  #turn: Promise<void> = Promise.resolve();

  private constructor(
    private readonly timeoutMs: number,
    private readonly drains: WorkerDrainsRepository,
    private readonly now: () => number,
    draining: readonly string[],
  ) {
    this.#draining = new Set(draining);
  }

  /**
   * An empty pool that knows which workers drain.
   * @param timeoutMs milliseconds of silence after which a worker is no longer active
   * @param now the present in epoch milliseconds
   */
  static async open(
    timeoutMs: number,
    drains: WorkerDrainsRepository,
    now: () => number = Date.now,
  ): Promise<MemoryWorkerPool> {
    return new MemoryWorkerPool(timeoutMs, drains, now, await drains.list());
  }

  heartbeat(heartbeat: Heartbeat): Promise<PooledWorker> {
    const now = this.now();
    this.#forgetSilent();
    const known = this.#entries.get(heartbeat.id);
    const reports = known?.reports ?? new RunReports();
    if (heartbeat.runningOps) {
      const ids = heartbeat.runningOps.map(({ id }) => id);
      reports.add(ids, now, now - this.timeoutMs);
    }
    const at = new Date(now);
    const said = {
      id: heartbeat.id,
      cpuCores: heartbeat.cpuCores,
      ramMb: heartbeat.ramMb,
      gpus: heartbeat.gpus,
      tags: heartbeat.tags,
      runningOps: heartbeat.runningOps ?? known?.said.runningOps ?? [],
      createdAt: known?.said.createdAt ?? at,
      lastHeartbeatAt: at,
    };
    const entry: Entry = { said, reports };
    // Back in at the end: the most silent worker stays first.
    this.#entries.delete(said.id);
    this.#entries.set(said.id, entry);
    return Promise.resolve(this.#view(entry));
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
    this.#forgetSilent();
    const workers = [...this.#entries.values()].map((entry) => this.#view(entry));
    return Promise.resolve(workers.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
  }

  count(): Promise<WorkerCounts> {
    this.#forgetSilent();
    const counts = { active: 0, draining: 0, stale: 0 };
    for (const entry of this.#entries.values()) counts[groupOf(this.#view(entry))] += 1;
    return Promise.resolve(counts);
  }

  async setDraining(id: string, draining: boolean): Promise<PooledWorker | null> {
    if (!this.#get(id)) return null;
    const done = this.#afterOthers(() => this.#writeDrain(id, draining));
    this.#turn = done.catch(() => undefined);
    await done;
    return this.find(id);
  }

  findSilent(ids: readonly string[]): Promise<SilentWorker[]> {
    const from = this.now() - this.timeoutMs;
    return Promise.resolve(
      ids.flatMap((id) => {
        const lastHeartbeatAt = this.#get(id)?.said.lastHeartbeatAt ?? null;
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
    let removed = before - this.#entries.size;
    const seen = [...this.#draining].flatMap((id) => {
      const entry = this.#entries.get(id);
      return entry ? [{ id, at: entry.said.lastHeartbeatAt }] : [];
    });
    await this.drains.markSeen(seen);
    const limit = new Date(this.now() - FORGET_AFTER_MS);
    removed += await inBatches(BATCH, stop, async () => {
      const ids = await this.drains.removeUnseen(limit, BATCH);
      for (const id of ids) this.#draining.delete(id);
      return ids.length;
    });
    return removed;
  }

  async #afterOthers(write: () => Promise<void>): Promise<void> {
    await this.#turn;
    await write();
  }

  async #writeDrain(id: string, draining: boolean): Promise<void> {
    if (draining) {
      await this.drains.insert(id, new Date(this.now()));
      this.#draining.add(id);
    } else {
      await this.drains.remove(id);
      this.#draining.delete(id);
    }
  }

  #get(id: string): Entry | undefined {
    this.#forgetSilent();
    return this.#entries.get(id);
  }

  #view({ said }: Entry): PooledWorker {
    // The many fields come last: what is added to a copy costs the engine more than the copy.
    return {
      isActive: this.now() - said.lastHeartbeatAt.getTime() <= this.timeoutMs,
      isDraining: this.#draining.has(said.id),
      ...said,
    };
  }

  #forgetSilent(): void {
    const limit = this.now() - FORGET_AFTER_MS;
    for (const [id, entry] of this.#entries) {
      if (entry.said.lastHeartbeatAt.getTime() > limit) return;
      this.#entries.delete(id);
    }
  }
}

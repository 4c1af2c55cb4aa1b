import type { Heartbeat, PooledWorker, WorkerPool } from './worker-pool.js';

/** Milliseconds after which a silent worker is forgotten. */
export const FORGET_AFTER_MS = 24 * 60 * 60 * 1000;

type Entry = Omit<PooledWorker, 'isActive'>;

/** The pool of a single server process, in its memory. */
export class MemoryWorkerPool implements WorkerPool {
  /** In order of the newest heartbeat, the most silent worker first. */
  readonly #entries = new Map<string, Entry>();

  /**
   * @param timeoutMs milliseconds of silence after which a worker is no longer active
   * @param now the present in epoch milliseconds
   */
  constructor(
    private readonly timeoutMs: number,
    private readonly now: () => number = Date.now,
  ) {}

  heartbeat(heartbeat: Heartbeat): Promise<PooledWorker> {
    const at = new Date(this.now());
    const known = this.#entries.get(heartbeat.id);
    const entry: Entry = {
      id: heartbeat.id,
      cpuCores: heartbeat.cpuCores,
      ramMb: heartbeat.ramMb,
      gpus: heartbeat.gpus,
      tags: heartbeat.tags,
      runningOps: heartbeat.runningOps ?? known?.runningOps ?? [],
      createdAt: known?.createdAt ?? at,
      lastHeartbeatAt: at,
    };
    this.#entries.delete(entry.id);
    this.#entries.set(entry.id, entry);
    this.#forget();
    return Promise.resolve(this.#view(entry));
  }

  find(id: string): Promise<PooledWorker | null> {
    this.#forget();
    const entry = this.#entries.get(id);
    return Promise.resolve(entry ? this.#view(entry) : null);
  }

  list(): Promise<PooledWorker[]> {
    this.#forget();
    const workers = [...this.#entries.values()].map((entry) => this.#view(entry));
    return Promise.resolve(workers.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
  }

  #view(entry: Entry): PooledWorker {
    return { ...entry, isActive: this.now() - entry.lastHeartbeatAt.getTime() <= this.timeoutMs };
  }

  #forget(): void {
    const limit = this.now() - FORGET_AFTER_MS;
    for (const [id, entry] of this.#entries) {
      if (entry.lastHeartbeatAt.getTime() > limit) return;
      this.#entries.delete(id);
    }
  }
}

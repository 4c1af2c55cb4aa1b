import type { DataSource } from 'typeorm';
import type { ReservedConnection } from '../../database/reserved-connection.js';
import { currentTime, type SqlExecutor } from '../../database/sql.js';
import { TooManyHeartbeats } from '../workers.errors.js';
import { Coalescer, CoalescerFull } from './coalescer.js';
import { FORGET_AFTER_MS, type PrunablePool } from './prunable-pool.js';
import { inBatches } from '../../database/in-batches.js';
import type { HeartbeatRow, SharedPoolRepository, SharedWorkerRow } from './shared-pool.repository.js';
import type { WorkerDrainsRepository } from './worker-drains.repository.js';
import type { Heartbeat, Holding, PooledWorker, SilentWorker, WorkerCounts } from './worker-pool.js';
import {
  gather,
  weightOf,
  writeHeartbeat,
  type GatheredHeartbeats,
  type WrittenHeartbeat,
} from './written-heartbeat.js';

/** Least time between two statements that write heartbeats, in milliseconds. */
const GATHER_MS = 100;

const LIMITS = {
  maxBatch: 5_000,
  maxBatchBytes: 8 * 1024 * 1024,
  maxWaiting: 20_000,
  maxWaitingBytes: 64 * 1024 * 1024,
};

/** Workers or drains that one statement reads or removes at most. */
const BATCH = 500;

/**
 * The pool that several server processes share: an unlogged table, by the database's time. Heartbeats of a process are
 * gathered for a tenth of a second and written together; each is answered when its statement is committed, so whatever
 * process is asked next knows of it.
 *
 * A worker that the pool does not know counts as silent only once the pool has been filled for longer than the
 * timeout: after a crash of the database, which empties the table, nobody has been able to report yet.
 */
export class SharedWorkerPool implements PrunablePool {
  readonly #writes: Coalescer<WrittenHeartbeat, PooledWorker>;

  /**
   * @param timeoutMs milliseconds of silence after which a worker is no longer active
   * @param connection writes heartbeats, which never wait behind reads: a worker that reports in time must not look silent
   */
  constructor(
    private readonly timeoutMs: number,
    private readonly dataSource: DataSource,
    private readonly repository: SharedPoolRepository,
    private readonly drains: WorkerDrainsRepository,
    private readonly connection: Pick<ReservedConnection, 'open' | 'close'>,
  ) {
    this.#writes = new Coalescer({
      ...LIMITS,
      pauseMs: GATHER_MS,
      weigh: weightOf,
      commit: (written) => this.#write(written),
    });
  }

  /** @throws TooManyHeartbeats when too many wait for the database; what the database fails with */
  async heartbeat(heartbeat: Heartbeat): Promise<PooledWorker> {
    try {
      return await this.#writes.submit(writeHeartbeat(heartbeat));
    } catch (error) {
      throw error instanceof CoalescerFull ? new TooManyHeartbeats() : error;
    }
  }

  async find(id: string): Promise<PooledWorker | null> {
    return (await this.findAll([id])).get(id) ?? null;
  }

  async findAll(
    ids: readonly string[],
    executor: SqlExecutor = this.dataSource,
  ): Promise<ReadonlyMap<string, PooledWorker>> {
    const found = await this.repository.findAll(executor, ids, this.timeoutMs);
    return new Map(found.map((row) => [row.id, toWorker(row)]));
  }

  async list(): Promise<PooledWorker[]> {
    const workers: PooledWorker[] = [];
    for (;;) {
      const after = workers.at(-1)?.id ?? '';
      const page = await this.repository.list(this.dataSource, after, BATCH, this.timeoutMs);
      workers.push(...page.map(toWorker));
      if (page.length < BATCH) return workers;
    }
  }

  count(): Promise<WorkerCounts> {
    return this.repository.count(this.dataSource, this.timeoutMs);
  }

  async setDraining(id: string, draining: boolean): Promise<PooledWorker | null> {
    const worker = await this.find(id);
    if (!worker) return null;
    if (draining) await this.drains.insert(id, await currentTime(this.dataSource));
    else await this.drains.remove(id);
    return { ...worker, isDraining: draining };
  }

  async findSilent(ids: readonly string[]): Promise<SilentWorker[]> {
    await this.repository.begin(this.dataSource);
    return this.repository.findSilent(this.dataSource, ids, this.timeoutMs);
  }

  async findUnreported(holdings: readonly Holding[]): Promise<Holding[]> {
    return this.repository.findUnreported(this.dataSource, holdings, this.timeoutMs);
  }

  async forget(stop?: AbortSignal): Promise<number> {
    const { dataSource, drains } = this;
    const before = new Date((await currentTime(dataSource)).getTime() - FORGET_AFTER_MS);
    await drains.markSeenByPool();
    const workers = await inBatches(BATCH, stop, () => this.repository.removeForgotten(dataSource, BATCH));
    return (
      workers + (await inBatches(BATCH, stop, async () => (await drains.removeUnseen(before, BATCH)).length))
    );
  }

  /** Notes since when the pool has been filled. */
  onApplicationBootstrap(): Promise<void> {
    return this.repository.begin(this.dataSource);
  }

  /** Writes what waits, and closes the connection. */
  async onModuleDestroy(): Promise<void> {
    await this.#writes.close();
    await this.connection.close();
  }

  async #write(written: readonly WrittenHeartbeat[]): Promise<PooledWorker[]> {
    const gathered = gather(written);
    const found = await this.repository.upsert(await this.connection.open(), gathered, this.timeoutMs);
    const rowById = new Map(found.map((row) => [row.id, row]));
    const answers = new Map<string, PooledWorker>();
    for (const said of gathered) {
      const row = rowById.get(said.newest.heartbeat.id);
      if (row) answers.set(row.id, answerOf(said, row));
    }
    return written.map(({ heartbeat }) => {
      const answer = answers.get(heartbeat.id);
      if (!answer) throw new Error('a heartbeat was not written');
      return answer;
    });
  }
}

function toWorker({ description, runningOps, ...row }: SharedWorkerRow): PooledWorker {
  return { ...row, ...description, runningOps: runningOps ?? [] };
}

function answerOf({ newest, running }: GatheredHeartbeats, row: HeartbeatRow): PooledWorker {
  const { id, cpuCores, ramMb, gpus, tags } = newest.heartbeat;
  const { createdAt, lastHeartbeatAt, isDraining } = row;
  const runningOps = running?.ops ?? row.runningOps ?? [];
  return {
    id,
    cpuCores,
    ramMb,
    gpus,
    tags,
    runningOps,
    createdAt,
    lastHeartbeatAt,
    isActive: true,
    isDraining,
  };
}

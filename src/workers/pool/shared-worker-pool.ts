import type { Ability } from '../../runs/machine/event-types.js';
import type { DataSource } from 'typeorm';
import type { Author } from '../../auth/audit-log.js';
import { isAloneInDeployment } from '../../database/advisory-locks.js';
import { inBatches } from '../../database/sql/in-batches.js';
import { currentTime, execute, rows, unnestRows, type SqlExecutor } from '../../database/sql/sql.js';
import {
  type EngineUse,
  FORGET_AFTER_MS,
  idleForgetMs,
  type Heartbeat,
  type Holding,
  type PooledWorker,
  type RunningOp,
  type SilentWorker,
  noneUnable,
  noWorkers,
  type UnableCounts,
  type WorkerCounts,
  type WorkerPool,
} from './worker-pool.js';
import type { HeartbeatWriter, WorkerDescription } from './heartbeat-writer.js';
import { CLOCK, FORGET_AFTER, POOL_BATCH, removeSilent } from './silent-workers.js';
import type { WorkerDrainsRepository } from './worker-drains.repository.js';

/** When the worker timeout began, with the timeout as parameter 1. */
const TIMEOUT_START = `c.now - $1::double precision * interval '1 millisecond'`;

/** The registered workers `w` with their descriptions `s`, the time `c`, and the absence `a` of those that are away. */
const WORKERS = `worker_pool w
         join worker_descriptions s
           on s.worker_id = w.worker_id
        cross join clock c
         left join worker_absences a
           on a.worker_id = w.worker_id
          and a.until > c.now`;

const IS_ACTIVE = `w.last_heartbeat_at >= ${TIMEOUT_START} and a.until is null`;

const SELECT_WORKERS = `with ${CLOCK}
       select w.worker_id as id,
              s.description,
              s.running_ops as "runningOps",
              w.created_at as "createdAt",
              w.last_heartbeat_at as "lastHeartbeatAt",
              ${IS_ACTIVE} as "isActive",
              a.until as "awayUntil",
              exists (select from worker_drains d where d.worker_id = w.worker_id) as "isDraining"
         from ${WORKERS}
        where w.last_heartbeat_at > c.now - ${FORGET_AFTER}`;

interface WorkerRow extends Omit<PooledWorker, keyof WorkerDescription | 'runningOps'> {
  readonly description: WorkerDescription;
  readonly runningOps: readonly RunningOp[] | null;
}

/**
 * The pool of several server processes, by the database's time. Its tables are unlogged: a crash of the database empties
 * them. Therefore unknown workers count as silent only when `worker_pool_epoch` is older than the timeout.
 *
 * `departed` maps runs that are missing in the newest report to the time, in epoch milliseconds, of the last report with
 * them; the empty key stands for dropped runs.
 */
export class SharedWorkerPool implements WorkerPool {
  /** @param timeoutMs worker timeout in milliseconds */
  constructor(
    private readonly timeoutMs: number,
    private readonly dataSource: DataSource,
    private readonly drains: WorkerDrainsRepository,
    private readonly heartbeats: HeartbeatWriter,
  ) {}

  heartbeat(heartbeat: Heartbeat, keyId?: string): Promise<PooledWorker> {
    return this.heartbeats.write(heartbeat, keyId);
  }

  async find(id: string): Promise<PooledWorker | null> {
    return (await this.findAll([id])).get(id) ?? null;
  }

  async findAll(
    ids: readonly string[],
    executor: SqlExecutor = this.dataSource,
  ): Promise<ReadonlyMap<string, PooledWorker>> {
    const found = await rows<WorkerRow>(executor, `${SELECT_WORKERS} and w.worker_id = any($2::text[])`, [
      this.timeoutMs,
      ids,
    ]);
    return new Map(found.map((row) => [row.id, toWorker(row)]));
  }

  async list(executor: SqlExecutor = this.dataSource): Promise<PooledWorker[]> {
    const workers: PooledWorker[] = [];
    for (;;) {
      const page = await this.listAfter(workers.at(-1)?.id ?? '', POOL_BATCH, executor);
      workers.push(...page);
      if (page.length < POOL_BATCH) return workers;
    }
  }

  async listAfter(
    id: string,
    limit: number,
    executor: SqlExecutor = this.dataSource,
  ): Promise<PooledWorker[]> {
    const found = await rows<WorkerRow>(
      executor,
      `${SELECT_WORKERS} and w.worker_id > $2::text
        order by w.worker_id
        limit $3::integer`,
      [this.timeoutMs, id, limit],
    );
    return found.map(toWorker);
  }

  async remove(id: string): Promise<void> {
    await execute(
      this.dataSource,
      `with removed as (
         delete from worker_pool
          where worker_id = $1::text
       ),
       absences as (
         delete from worker_absences
          where worker_id = $1::text
       )
       delete from worker_descriptions
        where worker_id = $1::text`,
      [id],
    );
  }

  async count(): Promise<WorkerCounts> {
    const [row] = await rows<WorkerCounts>(
      this.dataSource,
      `with ${CLOCK}
       select (count(*) filter (where standing = 'active'))::integer as active,
              (count(*) filter (where standing = 'draining'))::integer as draining,
              (count(*) filter (where standing = 'not_claiming'))::integer as not_claiming,
              (count(*) filter (where standing = 'away'))::integer as away,
              (count(*) filter (where standing = 'stale'))::integer as stale
         from (
           select case
                    when a.until is not null then 'away'
                    when w.last_heartbeat_at < ${TIMEOUT_START} then 'stale'
                    when d.worker_id is not null then 'draining'
                    when s.description #> '{notClaiming,0}' is not null then 'not_claiming'
                    else 'active'
                  end as standing
             from ${WORKERS}
             left join worker_drains d
               on d.worker_id = w.worker_id
            where w.last_heartbeat_at > c.now - ${FORGET_AFTER}
         ) g`,
      [this.timeoutMs],
    );
    return row ?? noWorkers();
  }

  async countUnable(): Promise<UnableCounts> {
    const found = await rows<{ ability: Ability; count: number }>(
      this.dataSource,
      `with ${CLOCK}
       select u.value ->> 'ability' as ability, count(*)::integer as count
         from ${WORKERS}
        cross join lateral jsonb_array_elements((s.description -> 'unable')::jsonb) u
        where ${IS_ACTIVE}
        group by 1`,
      [this.timeoutMs],
    );
    return { ...noneUnable(), ...Object.fromEntries(found.map(({ ability, count }) => [ability, count])) };
  }

  listEngines(limit: number): Promise<EngineUse[]> {
    return rows(
      this.dataSource,
      `with ${CLOCK}
       select name,
              count(*)::integer as launchers,
              sum(pending)::double precision as pending,
              sum(running)::double precision as running
         from (
           select s.description #>> '{engine,name}' as name,
                  (s.description #>> '{engine,pending}')::integer as pending,
                  (s.description #>> '{engine,running}')::integer as running
             from ${WORKERS}
            where ${IS_ACTIVE}
         ) e
        where name is not null
        group by name
        order by sum(pending) + sum(running) desc, name collate "C"
        limit $2::integer`,
      [this.timeoutMs, limit],
    );
  }

  async setDraining(id: string, draining: boolean, by: Author): Promise<PooledWorker | null> {
    const worker = await this.find(id);
    if (!worker) return null;
    if (draining) await this.drains.insert(id, await currentTime(this.dataSource), by);
    else await this.drains.remove(id, by);
    return { ...worker, isDraining: draining };
  }

  async findSilent(ids: readonly string[]): Promise<SilentWorker[]> {
    await begin(this.dataSource);
    return rows(
      this.dataSource,
      `with ${CLOCK}
       select asked.id,
              w.last_heartbeat_at as "lastHeartbeatAt"
         from unnest($2::text[]) as asked (id)
        cross join clock c
         left join worker_pool w
           on w.worker_id = asked.id
          and w.last_heartbeat_at > c.now - ${FORGET_AFTER}
        where (w.last_heartbeat_at < ${TIMEOUT_START}
               or (w.worker_id is null
                   and exists (select from worker_pool_epoch e where e.started_at < ${TIMEOUT_START})))
          and not exists (select from worker_absences a where a.worker_id = asked.id and a.until > c.now)`,
      [this.timeoutMs, ids],
    );
  }

  async findUnreported(holdings: readonly Holding[]): Promise<Holding[]> {
    const source = unnestRows(
      { run_id: 'text', worker_id: 'text' },
      holdings.map(({ runId, workerId }) => ({ run_id: runId, worker_id: workerId })),
      2,
    );
    const startMs = `extract(epoch from c.now) * 1000 - $1::double precision`;
    return rows(
      this.dataSource,
      `with ${CLOCK}
       select v.run_id as "runId",
              v.worker_id as "workerId"
         from ${source.sql}
        cross join clock c
         join worker_pool w
           on w.worker_id = v.worker_id
          and w.previous_report_at >= ${TIMEOUT_START}
         join worker_descriptions s
           on s.worker_id = w.worker_id
        where not (s.running_ids ? v.run_id)
          and coalesce((s.departed ->> v.run_id)::double precision < ${startMs}, true)
          and coalesce((s.departed ->> '')::double precision < ${startMs}, true)`,
      [this.timeoutMs, ...source.params],
    );
  }

  async forget(stop?: AbortSignal): Promise<number> {
    const { drains } = this;
    const before = new Date((await currentTime(this.dataSource)).getTime() - FORGET_AFTER_MS);
    await drains.markSeenByPool();
    const forgotten = (silentMs: number, which: 'all' | 'idle'): Promise<number> =>
      inBatches(POOL_BATCH, stop, () => removeSilent(this.dataSource, silentMs, which));
    const workers =
      (await forgotten(FORGET_AFTER_MS, 'all')) + (await forgotten(idleForgetMs(this.timeoutMs), 'idle'));
    await execute(this.dataSource, `delete from worker_absences where until <= clock_timestamp()`);
    const ended = await inBatches(
      POOL_BATCH,
      stop,
      async () => (await drains.removeUnseen(before, POOL_BATCH)).length,
    );
    return workers + ended;
  }

  onApplicationBootstrap(): Promise<void> {
    return begin(this.dataSource);
  }

  onModuleDestroy(): Promise<void> {
    return this.heartbeats.close();
  }
}

/** Empties the shared pool if no other process serves, before this one listens or starts others; whether it did. */
export async function resetPoolOnFirstStart(dataSource: DataSource): Promise<boolean> {
  return dataSource.transaction(async (manager) => {
    if (!(await isAloneInDeployment(manager))) return false;
    await execute(manager, `truncate worker_pool, worker_descriptions, worker_pool_epoch`);
    await begin(manager);
    return true;
  });
}

/** Records since when the pool is in use, once. */
async function begin(executor: SqlExecutor): Promise<void> {
  await execute(
    executor,
    `insert into worker_pool_epoch (started_at)
     select clock_timestamp()
      where not exists (select from worker_pool_epoch)
         on conflict (only_row) do nothing`,
  );
}

function toWorker({ description, runningOps, ...row }: WorkerRow): PooledWorker {
  return { ...row, ...description, runningOps: runningOps ?? [] };
}

import { createHash } from 'node:crypto';
import { stringifyJson } from '@longshore/common/json/json-text';
import { rows, unnestRows, type SqlExecutor } from '../../database/sql/sql.js';
import { TooManyHeartbeats, tooManyWorkers, tooManyWorkersOfKey } from '../workers.errors.js';
import { Coalescer, CoalescerFull } from './coalescer.js';
import { MAX_DEPARTED } from './memory-worker-pool.js';
import { CLOCK, findFullKeys, FORGET_AFTER, removeSilent } from './silent-workers.js';
import { bytesForRuns, fitRunningRuns } from './worker-bytes.js';
import {
  FULL_POOL_TIMEOUTS,
  NO_KEY,
  type Heartbeat,
  type PooledWorker,
  type PoolLimits,
  type RunningOp,
} from './worker-pool.js';

/** Minimum time between two statements, in milliseconds. */
const PAUSE_MS = 100;

const LIMITS = {
  maxBatch: 5_000,
  maxBatchBytes: 8 * 1024 * 1024,
  maxWaiting: 20_000,
  maxWaitingBytes: 64 * 1024 * 1024,
};

export type WorkerDescription = Omit<Heartbeat, 'id' | 'runningOps' | 'awayMs'>;

/** A heartbeat as JSON texts, with hashes that tell whether the row has the same content already. */
interface WrittenHeartbeat {
  readonly heartbeat: Omit<Heartbeat, 'awayMs'>;
  readonly awayMs: number | null;
  readonly keyId: string;
  readonly description: string;
  readonly descriptionHash: string;
  /** Null for a heartbeat without running runs. */
  readonly running: WrittenRuns | null;
}

interface WrittenRuns {
  readonly ops: readonly RunningOp[];
  readonly ids: readonly string[];
  readonly text: string;
  readonly hash: string;
}

/** Heartbeats of one worker in one statement: the newest one counts, and each is a report of its own. */
interface MergedHeartbeats {
  readonly newest: WrittenHeartbeat;
  /** The newest report of running runs. */
  readonly running: WrittenRuns | null;
  /** Number of heartbeats with running runs. */
  readonly reports: number;
  /** Runs in an earlier report and not in the newest one. */
  readonly earlierIds: readonly string[];
}

type PoolFields = 'id' | 'createdAt' | 'lastHeartbeatAt' | 'isDraining' | 'awayUntil';

interface HeartbeatRow extends Pick<PooledWorker, PoolFields> {
  /** Running runs of earlier heartbeats, for workers that reported none now; null: none. */
  readonly runningOps: readonly RunningOp[] | null;
}

/** Why a worker was not registered: the pool is full, or the key has as many workers as it may have. */
type FullLimit = 'pool' | 'key';

const NO_RUNS_HASH = hashOf('[]');

/** Writes the heartbeats of a process to the shared pool, collected for 100 ms. Resolves after the commit. */
export class HeartbeatWriter {
  readonly #writes: Coalescer<WrittenHeartbeat, PooledWorker | FullLimit>;

  /**
   * @param timeoutMs worker timeout: older reports are dropped
   * @param connection reserved, so that a heartbeat never waits behind reads
   */
  constructor(
    private readonly timeoutMs: number,
    private readonly connection: { open(): Promise<SqlExecutor>; close(): Promise<void> },
    private readonly limits: PoolLimits,
  ) {
    this.#writes = new Coalescer({
      ...LIMITS,
      pauseMs: PAUSE_MS,
      weigh: ({ description, running }) => description.length + (running?.text.length ?? 0),
      commit: (heartbeats) => this.#write(heartbeats),
    });
  }

  /** @throws TooManyHeartbeats, OverLimit, or an error of the database */
  async write({ awayMs, ...heartbeat }: Heartbeat, keyId = NO_KEY): Promise<PooledWorker> {
    const { id: _id, runningOps, ...described } = heartbeat;
    const ops = runningOps && fitRunningRuns(runningOps, bytesForRuns(heartbeat, this.limits.maxWorkerBytes));
    const description = JSON.stringify(described satisfies WorkerDescription);
    const text = ops && stringifyJson(ops);
    const ids = runningOps?.map(({ id }) => id);
    const running = ops && ids && text !== undefined ? { ops, ids, text, hash: hashOf(text, ids) } : null;
    const written = {
      heartbeat,
      awayMs: awayMs ?? null,
      keyId,
      description,
      descriptionHash: hashOf(description),
      running,
    };
    const worker = await this.#writes.submit(written).catch((error: unknown) => {
      throw error instanceof CoalescerFull ? new TooManyHeartbeats() : error;
    });
    if (worker === 'key') throw tooManyWorkersOfKey(this.limits.maxWorkersPerKey);
    if (worker === 'pool') throw tooManyWorkers(this.limits.maxWorkers);
    return worker;
  }

  /** Writes waiting heartbeats and closes the connection. */
  async close(): Promise<void> {
    await this.#writes.close();
    await this.connection.close();
  }

  async #write(heartbeats: readonly WrittenHeartbeat[]): Promise<(PooledWorker | FullLimit)[]> {
    const byWorker = new Map<string, WrittenHeartbeat[]>();
    for (const one of heartbeats) {
      const { id } = one.heartbeat;
      const others = byWorker.get(id) ?? [];
      others.push(one);
      byWorker.set(id, others);
    }
    const merged = [...byWorker.values()].map(merge);
    const rowById = new Map((await this.#upsert(merged)).map((row) => [row.id, row]));
    const workers = new Map<string, PooledWorker>();
    for (const one of merged) {
      const row = rowById.get(one.newest.heartbeat.id);
      if (row) workers.set(row.id, toWorker(one, row));
    }
    const refused = merged.filter(({ newest }) => !workers.has(newest.heartbeat.id));
    const fullKeys = await this.#findFullKeys(refused.map(({ newest }) => newest.keyId));
    return heartbeats.map(
      ({ heartbeat, keyId }) => workers.get(heartbeat.id) ?? (fullKeys.has(keyId) ? 'key' : 'pool'),
    );
  }

  /** Those of the keys that have as many workers as they may have; then makes room, for the next try. */
  async #findFullKeys(keyIds: readonly string[]): Promise<ReadonlySet<string>> {
    if (keyIds.length === 0) return new Set();
    const connection = await this.connection.open();
    const full = await findFullKeys(connection, keyIds, this.limits.maxWorkersPerKey);
    await removeSilent(connection, FULL_POOL_TIMEOUTS * this.timeoutMs, 'all');
    return new Set(full);
  }

  /** Locks rows in the order of ids, so that processes never deadlock; does not rewrite unchanged content. */
  async #upsert(heartbeats: readonly MergedHeartbeats[]): Promise<HeartbeatRow[]> {
    const source = unnestRows(
      {
        worker_id: 'text',
        key_id: 'uuid',
        description_hash: 'uuid',
        description: 'json',
        reports: 'integer',
        running_hash: 'uuid',
        running_ids: 'jsonb',
        running_ops: 'json',
        earlier_ids: 'jsonb',
        away_ms: 'double precision',
      },
      heartbeats.map(({ newest, running, reports, earlierIds }) => ({
        worker_id: newest.heartbeat.id,
        key_id: newest.keyId,
        description_hash: newest.descriptionHash,
        description: newest.description,
        reports,
        running_hash: running?.hash ?? null,
        running_ids: running && JSON.stringify(running.ids),
        running_ops: running?.text ?? null,
        earlier_ids: earlierIds.length === 0 ? null : JSON.stringify(earlierIds),
        away_ms: newest.awayMs,
      })),
      6,
    );
    return rows(
      await this.connection.open(),
      `with ${CLOCK},
       said as materialized (
         select v.*,
                c.now,
                coalesce(old.last_heartbeat_at <= c.now - ${FORGET_AFTER}, true) as is_new,
                old.worker_id is null as is_unknown
           from ${source.sql}
          cross join clock c
           left join worker_pool old
             on old.worker_id = v.worker_id
       ),
       admitted as materialized (
         select *
           from (
             select *,
                    row_number() over (partition by is_unknown order by nth_of_key, worker_id) as nth
               from (
                 select *, row_number() over (partition by is_unknown, key_id order by worker_id) as nth_of_key
                   from said
               ) k
           ) s
          where case when is_unknown then
                  nth <= $4::integer - (select count(*) from worker_pool)
                  and nth_of_key <= $5::integer - coalesce(((
                    select jsonb_object_agg(key_id, held)
                      from (select key_id, count(*) as held from worker_pool group by key_id) h
                  ) ->> key_id::text)::integer, 0)
                else true end
       ),
       beat as (
         insert into worker_pool as w (
                  created_at, last_heartbeat_at, last_report_at, previous_report_at, key_id, had_run, worker_id
                )
         select now,
                now,
                case when reports >= 1 then now end,
                case when reports >= 2 then now end,
                key_id,
                coalesce(running_ids, '[]') <> '[]' or earlier_ids is not null,
                worker_id
           from admitted
          order by worker_id collate "C"
             on conflict (worker_id) do update
            set created_at = case
                  when w.last_heartbeat_at > excluded.last_heartbeat_at - ${FORGET_AFTER} then w.created_at
                  else excluded.created_at
                end,
                last_heartbeat_at = greatest(w.last_heartbeat_at, excluded.last_heartbeat_at),
                key_id = excluded.key_id,
                had_run = w.had_run or excluded.had_run,
                last_report_at = greatest(w.last_report_at, excluded.last_report_at),
                previous_report_at = case
                  when excluded.last_report_at is null then w.previous_report_at
                  else coalesce(excluded.previous_report_at, w.last_report_at)
                end
      returning w.worker_id, w.created_at, w.last_heartbeat_at
       ),
       descriptions as (
         insert into worker_descriptions as w (
                  description_hash, running_hash, worker_id, description, departed, running_ids, running_ops
                )
         select s.description_hash,
                coalesce(s.running_hash, case when s.is_new then $3::uuid end),
                s.worker_id,
                s.description,
                (select jsonb_object_agg(e.id, (extract(epoch from s.now) * 1000)::bigint)
                   from jsonb_array_elements_text(s.earlier_ids) as e (id)),
                coalesce(s.running_ids, case when s.is_new then '[]'::jsonb end),
                coalesce(s.running_ops, case when s.is_new then '[]'::json end)
           from beat b
           join said s
             on s.worker_id = b.worker_id
             on conflict (worker_id) do update
            set description_hash = excluded.description_hash,
                description = excluded.description,
                running_hash = coalesce(excluded.running_hash, w.running_hash),
                running_ids = coalesce(excluded.running_ids, w.running_ids),
                running_ops = coalesce(excluded.running_ops, w.running_ops),
                departed = case when excluded.running_hash is null then w.departed else (
                  select case
                           when count(*) > $2::integer then jsonb_build_object('', max(t))
                           else jsonb_object_agg(id, t)
                         end
                    from (
                      select id, max(t) as t
                        from (
                          select key, value::bigint
                            from jsonb_each_text(w.departed)
                           union all
                          select key, value::bigint
                            from jsonb_each_text(excluded.departed)
                           union all
                          select r.id, (extract(epoch from p.last_report_at) * 1000)::bigint
                            from worker_pool p
                           cross join jsonb_array_elements_text(w.running_ids) as r (id)
                           where p.worker_id = excluded.worker_id
                        ) as named (id, t)
                       where t >= extract(epoch from clock_timestamp()) * 1000 - $1::double precision
                         and not (excluded.running_ids ? id)
                       group by id
                    ) as gone
                ) end
          where w.description_hash <> excluded.description_hash
             or w.running_hash is distinct from coalesce(excluded.running_hash, w.running_hash)
             or excluded.departed is not null
       ),
       leaving as (
         insert into worker_absences as a (worker_id, until)
         select s.worker_id, s.now + s.away_ms * interval '1 millisecond'
           from beat b
           join said s
             on s.worker_id = b.worker_id
          where s.away_ms is not null
             on conflict (worker_id) do update
            set until = excluded.until
       ),
       returning_ones as (
         delete from worker_absences a
          using beat b
           join said s
             on s.worker_id = b.worker_id
          where a.worker_id = b.worker_id
            and s.away_ms is null
       )
       select b.worker_id as id,
              b.created_at as "createdAt",
              b.last_heartbeat_at as "lastHeartbeatAt",
              exists (select from worker_drains d where d.worker_id = b.worker_id) as "isDraining",
              s.now + s.away_ms * interval '1 millisecond' as "awayUntil",
              case when s.reports = 0 and not s.is_new then (
                select w.running_ops from worker_descriptions w where w.worker_id = b.worker_id
              ) end as "runningOps"
         from beat b
         join said s
           on s.worker_id = b.worker_id`,
      [
        this.timeoutMs,
        MAX_DEPARTED,
        NO_RUNS_HASH,
        this.limits.maxWorkers,
        this.limits.maxWorkersPerKey,
        ...source.params,
      ],
    );
  }
}

function merge(heartbeats: readonly WrittenHeartbeat[]): MergedHeartbeats {
  const newest = heartbeats.at(-1);
  if (newest === undefined) throw new RangeError('no heartbeats to merge');
  const reports = heartbeats.flatMap(({ running }) => running ?? []);
  const running = reports.at(-1) ?? null;
  const earlierIds = new Set(reports.slice(0, -1).flatMap(({ ids }) => ids));
  for (const id of running?.ids ?? []) earlierIds.delete(id);
  return { newest, running, reports: reports.length, earlierIds: [...earlierIds] };
}

function toWorker({ newest, running }: MergedHeartbeats, row: HeartbeatRow): PooledWorker {
  return {
    ...newest.heartbeat,
    runningOps: running?.ops ?? row.runningOps ?? [],
    createdAt: row.createdAt,
    lastHeartbeatAt: row.lastHeartbeatAt,
    isActive: row.awayUntil === null,
    isDraining: row.isDraining,
    awayUntil: row.awayUntil,
  };
}

/** 128 bits in the form of a UUID, a type of 16 bytes in the database. */
function hashOf(text: string, ids: readonly string[] = []): string {
  return createHash('sha256').update(text).update(ids.join(' ')).digest('hex').slice(0, 32);
}

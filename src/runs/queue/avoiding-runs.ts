import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import type { ClaimingWorker, QueuedRun } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import { RESTRICTED_EXIST } from './restricted-runs.js';
import { parseQueueNotification, QUEUE_CHANNEL } from './queue-notifications.js';
import { WithheldRuns, type QueueNotifications } from './withheld-runs.js';

/** Distinct shapes of runs that one scan passes, the smallest first. */
const MAX_SHAPES = 200;

// The shapes are enumerated by one index step each: runs too large for every claimant cost nothing more.
const LIST = `with recursive shapes as (
         (select q.cpu, q.ram_mb, q.vram_mb, 1 as n
            from ${QUEUE.name} q
           where q.avoided_worker is not null
           order by q.cpu, q.ram_mb, q.vram_mb
           limit 1)
          union all
         select next.cpu, next.ram_mb, next.vram_mb, s.n + 1
           from shapes s
          cross join lateral (
            select q.cpu, q.ram_mb, q.vram_mb
              from ${QUEUE.name} q
             where q.avoided_worker is not null
               and (q.cpu, q.ram_mb, q.vram_mb) > (s.cpu, s.ram_mb, s.vram_mb)
             order by q.cpu, q.ram_mb, q.vram_mb
             limit 1
          ) next
          where s.n < ${MAX_SHAPES}
       )
       select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}
         from (
           select f.run_id, f.priority, f.created_at
             from shapes s
            cross join lateral (
              select q.run_id, q.priority, q.created_at
                from ${QUEUE.name} q
               where q.avoided_worker is not null
                 and q.cpu = s.cpu
                 and q.ram_mb = s.ram_mb
                 and q.vram_mb = s.vram_mb
               order by q.priority desc, q.created_at, q.run_id
               limit $1::integer
            ) f
            where exists (
                    select
                      from unnest($2::bigint[], $3::bigint[], $4::bigint[]) as w (cpu, ram_mb, vram_mb)
                     where s.cpu <= w.cpu
                       and s.ram_mb <= w.ram_mb
                       and s.vram_mb <= w.vram_mb
                  )
            order by f.priority desc, f.created_at, f.run_id
            limit $1::integer
         ) first
         join ${QUEUE.name} q on q.run_id = first.run_id
         join ${RUNS.name} r on r.id = first.run_id
        order by q.priority desc, q.created_at, q.run_id`;

const EXISTS = `select exists (select from ${QUEUE.name} where avoided_worker is not null) as avoiding,
              ${RESTRICTED_EXIST} as restricted`;

/** What a claim finds of the runs that avoid a worker. */
export interface AvoidingRunsFound {
  /** Those that fit into one of the claimants, in queue order, as far as the limit goes. */
  readonly runs: readonly QueuedRun[];
  /** Whether there are any, of any size. */
  readonly exist: boolean;
}

const NONE: AvoidingRunsFound = { runs: [], exist: false };

/** The queued runs that avoid a worker. Scans of the whole queue leave them out. */
export class AvoidingRuns extends WithheldRuns {
  /** @param notifications without them every claim asks the database */
  constructor(notifications?: QueueNotifications) {
    super(QUEUE_CHANNEL, (text) => text === null || parseQueueNotification(text).mayAvoid, notifications);
  }

  /** The first of them, without locks. @param limit at most so many */
  async find(
    manager: EntityManager,
    claimants: readonly ClaimingWorker[],
    limit: number,
  ): Promise<AvoidingRunsFound> {
    if (!this.mayExist) return NONE;
    const { version } = this;
    const runs = await rows<QueuedRun>(manager, LIST, [
      limit,
      claimants.map(({ cpuCores }) => cpuCores),
      claimants.map(({ ramMb }) => ramMb),
      claimants.map(({ gpus }) => gpus.reduce((most, { vramMb }) => Math.max(most, vramMb), 0)),
    ]);
    if (runs.length > 0) return { runs, exist: true };
    const { avoiding: exist } = await this.findWithheld(manager);
    if (!exist) this.foundNone(version);
    return { runs, exist };
  }

  /** Whether there are any, notified or not, and whether the restricted queue has any runs. */
  async findWithheld(manager: EntityManager): Promise<{ avoiding: boolean; restricted: boolean }> {
    const [found] = await rows<{ avoiding: boolean; restricted: boolean }>(manager, EXISTS);
    if (found?.avoiding) this.expect();
    return found ?? { avoiding: false, restricted: false };
  }
}

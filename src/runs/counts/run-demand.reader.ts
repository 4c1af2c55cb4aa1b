import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { execute, rows, type SqlExecutor } from '../../database/sql/sql.js';
import { QueueReader } from '../queue/queue.reader.js';
import type { HeldRun, Shape } from '../scheduling-strategy.js';
import { HeldRunRepository } from '../storage/held-run.repository.js';
import { jsonSum, PENDING_SUMS, sumsOf, type DemandSum } from './demand-sums.js';
import { readRequirementDemand, type DemandByRequirements } from './requirement-demand.js';
import { RunCountsRepository } from './run-counts.repository.js';

export interface RunNumbers {
  /** Pending and in the queue. */
  readonly ready: number;
  /** Pending and in back-off. */
  readonly waiting: number;
  /** Assigned or running. */
  readonly inExecution: number;
}

export interface ShapeDemand extends RunNumbers, Shape {}

/** What the runs that have not ended ask for. */
export interface RunDemand {
  /** The database's time. */
  readonly at: Date;
  /** Those with the most pending runs first, then those with the most in execution. */
  readonly shapes: readonly ShapeDemand[];
  readonly ready: DemandSum;
  readonly waiting: DemandSum;
  readonly inExecution: DemandSum;
}

const SUMS_OF_ALL = [
  ...PENDING_SUMS.map(
    ({ name, sum }) => `(select ${name} from run_demand_sums) + (select ${sum} from recent) as ${name}`,
  ),
  ...sumsOf('in_execution').map(({ name, sum }) => `(select ${sum} from held) as ${name}`),
].join(',\n                ');

/** What the runs that have not ended ask for, and what the workers hold. */
export interface DemandSnapshot {
  readonly demand: RunDemand;
  readonly byRequirements: DemandByRequirements;
  /** When the oldest pending run was created; null when none is. */
  readonly oldestPendingAt: Date | null;
  /** The runs that the workers hold, by worker; a worker that holds none is absent. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Ids of workers that are reserved for a run. */
  readonly reserved: ReadonlySet<string>;
}

/** Reads demand and held runs, at a cost that does not grow with the number of pending and ended runs. */
@Injectable()
export class RunDemandReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly heldRuns: HeldRunRepository,
    private readonly queue: QueueReader,
  ) {}

  /**
   * Reads one snapshot, so a run that is claimed meanwhile is either pending or held.
   * @param limit shapes, and requirements, at most
   */
  read(limit: number): Promise<DemandSnapshot> {
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      // Statistics lag behind a queue that grows by a million, so the planner would choose sequential scans.
      await execute(
        manager,
        `select set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`,
      );
      const demand = await readDemand(manager, limit);
      const pending = demand.ready.runs + demand.waiting.runs;
      return {
        demand,
        byRequirements: await readRequirementDemand(manager, limit),
        oldestPendingAt: await this.counts.findOldestPending(manager, pending),
        held: await this.heldRuns.findHeld(manager, 'all'),
        reserved: new Set(await this.queue.listReservedWorkers(manager)),
      };
    });
  }
}

/**
 * What pending runs and runs in execution ask for, as one snapshot. Reads only the `limit` shapes with the most runs,
 * those that changed recently, and those in execution.
 */
export async function readDemand(executor: SqlExecutor, limit: number): Promise<RunDemand> {
  const [demand] = await rows<RunDemand>(
    executor,
    `with recent as materialized (
       select cpu, ram_mb, vram_mb, sum(ready) as ready, sum(waiting) as waiting
         from run_demand_changes
        group by cpu, ram_mb, vram_mb
     ),
     held as materialized (
       select cpu, ram_mb, vram_mb, count(*) as in_execution
         from runs
        where state in ('ASSIGNED', 'RUNNING')
          and worker_id is not null
        group by cpu, ram_mb, vram_mb
     ),
     likely as materialized (
       (select cpu, ram_mb, vram_mb
          from run_demand
         order by ready + waiting desc
         limit $1::integer + (select count(*) from recent))
        union
       select cpu, ram_mb, vram_mb
         from recent
        union
       select cpu, ram_mb, vram_mb
         from held
     ),
     shapes as materialized (
       select cpu, ram_mb, vram_mb,
              coalesce(d.ready, 0) + coalesce(r.ready, 0) as ready,
              coalesce(d.waiting, 0) + coalesce(r.waiting, 0) as waiting,
              coalesce(h.in_execution, 0) as in_execution
         from likely l
         left join lateral (
           select ready, waiting
             from run_demand d
            where (d.cpu, d.ram_mb, d.vram_mb) = (l.cpu, l.ram_mb, l.vram_mb)
            limit 1
         ) d on true
         left join recent r using (cpu, ram_mb, vram_mb)
         left join held h using (cpu, ram_mb, vram_mb)
     ),
     largest as materialized (
       select *
         from shapes
        where ready <> 0
           or waiting <> 0
           or in_execution <> 0
        order by ready + waiting desc, in_execution desc, cpu, ram_mb, vram_mb
        limit $1::integer
     ),
     sums as materialized (
       select date_trunc('milliseconds', statement_timestamp()) as at,
              ${SUMS_OF_ALL}
     )
     select s.at,
            coalesce((
              select json_agg(json_build_object(
                       'cpu', cpu, 'ramMb', ram_mb, 'vramMb', vram_mb,
                       'ready', ready, 'waiting', waiting, 'inExecution', in_execution
                     ) order by ready + waiting desc, in_execution desc, cpu, ram_mb, vram_mb)
                from largest
            ), '[]') as shapes,
            ${jsonSum('ready')} as ready,
            ${jsonSum('waiting')} as waiting,
            ${jsonSum('in_execution')} as "inExecution"
       from sums s`,
    [limit],
  );
  if (demand === undefined) throw new Error('the database returned no sums');
  return demand;
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, rows, type SqlExecutor } from '../../database/sql.js';
import type { Shape } from '../scheduling-strategy.js';

/** How many runs, by how far they have come. */
export interface RunNumbers {
  /** Pending and in the queue. */
  readonly ready: number;
  /** Pending and in back-off. */
  readonly waiting: number;
  /** Assigned to a worker or running there. */
  readonly inExecution: number;
}

/** Runs that ask for the same. */
export interface ShapeDemand extends RunNumbers, Shape {}

/** What runs ask for, taken together. */
export interface DemandSum extends Shape {
  readonly runs: number;
  /** Runs that ask for GPU memory: each of them takes it of one GPU. */
  readonly gpus: number;
}

/** What the runs that have not ended ask for. */
export interface RunDemand {
  /** The database's time. */
  readonly at: Date;
  /** Those with the most pending runs first, then those with the most in execution; a bounded number. */
  readonly shapes: readonly ShapeDemand[];
  readonly ready: DemandSum;
  readonly waiting: DemandSum;
  readonly inExecution: DemandSum;
}

const STAGES = ['ready', 'waiting', 'in_execution'] as const;

/** What a run adds to each of the sums. */
const MEASURES = {
  runs: '1',
  cpu: 'cpu',
  ram_mb: 'ram_mb',
  vram_mb: 'vram_mb',
  gpus: 'sign(vram_mb)',
} as const;

type Stage = (typeof STAGES)[number];

type DemandRow = { readonly at: Date } & Readonly<
  Record<`${Stage}_${keyof typeof MEASURES}`, string> &
    Record<Stage | 'cpu' | 'ram_mb' | 'vram_mb', string | null>
>;

/** The expression of each sum of the stage, over rows that have its number of runs of a shape. */
function sumsOf(stage: Stage): { readonly name: string; readonly sum: string }[] {
  return Object.entries(MEASURES).map(([measure, each]) => ({
    name: `${stage}_${measure}`,
    sum: `coalesce(sum(${stage} * ${each}), 0)`,
  }));
}

const PENDING_SUMS = [...sumsOf('ready'), ...sumsOf('waiting')];

const SUMS_OF_ALL = [
  ...PENDING_SUMS.map(
    ({ name, sum }) => `(select ${name} from run_demand_sums) + (select ${sum} from recent) as ${name}`,
  ),
  ...sumsOf('in_execution').map(({ name, sum }) => `(select ${sum} from held) as ${name}`),
].join(',\n                ');

/** SQL of the tables `run_demand...`, the changes in which triggers write, and of what is in execution. */
@Injectable()
export class RunDemandRepository {
  /**
   * What pending runs and runs in the hands of workers ask for, as one snapshot. Neither the pending runs nor their shapes
   * are looked at one by one: only the shapes with the most runs, those that changed lately, and those in execution.
   * @param limit shapes at most that are told one by one
   */
  async read(executor: SqlExecutor, limit: number): Promise<RunDemand> {
    const found = await rows<DemandRow>(
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
       select s.*, l.*
         from sums s
         left join largest l on true
        order by l.ready + l.waiting desc, l.in_execution desc, l.cpu, l.ram_mb, l.vram_mb`,
      [limit],
    );
    const [first] = found;
    if (first === undefined) throw new Error('the database did not tell the sums');
    return {
      at: first.at,
      shapes: found.flatMap((row) => (row.cpu === null ? [] : [shapeOf(row)])),
      ready: sumOf(first, 'ready'),
      waiting: sumOf(first, 'waiting'),
      inExecution: sumOf(first, 'in_execution'),
    };
  }

  /** Has the transaction go by indexes whatever the statistics say, which lag behind a queue that grows by a million. */
  async planByIndexes(manager: EntityManager): Promise<void> {
    await execute(
      manager,
      `select set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`,
    );
  }

  /**
   * Adds changes to the counts of their shapes and to the sums, and removes them; a bounded number. A transaction that is
   * just writing to one of them is not waited for.
   * @param before those of seconds before this time are summed up
   * @returns how many rows of changes it removed
   */
  async rollUp(manager: EntityManager, before: Date, limit: number): Promise<number> {
    const [row] = await rows<{ removed: string }>(
      manager,
      `with old as materialized (
         select since, slot, cpu, ram_mb, vram_mb
           from run_demand_changes
          where since < $1::timestamptz
          order by since, slot, cpu, ram_mb, vram_mb
          limit $2::integer
            for update skip locked
       ),
       removed as (
         delete from run_demand_changes c
          using old
          where c.since = old.since
            and c.slot = old.slot
            and c.cpu = old.cpu
            and c.ram_mb = old.ram_mb
            and c.vram_mb = old.vram_mb
      returning c.cpu, c.ram_mb, c.vram_mb, c.ready, c.waiting
       ),
       added as (
         insert into run_demand as d (cpu, ram_mb, vram_mb, ready, waiting)
         select cpu, ram_mb, vram_mb, sum(ready), sum(waiting)
           from removed
          group by cpu, ram_mb, vram_mb
         having sum(ready) <> 0 or sum(waiting) <> 0
             on conflict (cpu, ram_mb, vram_mb) do update
            set ready = d.ready + excluded.ready,
                waiting = d.waiting + excluded.waiting
       ),
       summed as (
         update run_demand_sums s
            set ${PENDING_SUMS.map(({ name }) => `${name} = s.${name} + r.${name}`).join(', ')}
           from (
             select ${PENDING_SUMS.map(({ name, sum }) => `${sum} as ${name}`).join(', ')}
               from removed
           ) r
       )
       select count(*) as removed
         from removed`,
      [before.toISOString(), limit],
    );
    return Number(row?.removed ?? 0);
  }

  /** Removes what is left of shapes that no pending run has any more. */
  async removeEmpty(manager: EntityManager): Promise<number> {
    return execute(
      manager,
      `delete from run_demand
        where ready + waiting = 0
          and ready = 0`,
    );
  }
}

function shapeOf(row: DemandRow): ShapeDemand {
  return {
    cpu: Number(row.cpu),
    ramMb: Number(row.ram_mb),
    vramMb: Number(row.vram_mb),
    ready: Number(row.ready),
    waiting: Number(row.waiting),
    inExecution: Number(row.in_execution),
  };
}

function sumOf(row: DemandRow, stage: (typeof STAGES)[number]): DemandSum {
  return {
    runs: Number(row[`${stage}_runs`]),
    cpu: Number(row[`${stage}_cpu`]),
    ramMb: Number(row[`${stage}_ram_mb`]),
    vramMb: Number(row[`${stage}_vram_mb`]),
    gpus: Number(row[`${stage}_gpus`]),
  };
}

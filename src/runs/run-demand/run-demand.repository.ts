import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, rows, type SqlExecutor } from '../../database/sql.js';
import { tryLock } from '../../database/try-lock.js';
import type { Shape } from '../scheduling-strategy.js';

const ROLL_UP_LOCK = '6031175942280515';

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
  /** All shapes that there are, also those left out. */
  readonly shapeCount: number;
  readonly ready: DemandSum;
  readonly waiting: DemandSum;
  readonly inExecution: DemandSum;
}

const STAGES = ['ready', 'waiting', 'in_execution'] as const;

const MEASURES = {
  runs: '1',
  cpu: 'cpu',
  ram_mb: 'ram_mb',
  vram_mb: 'vram_mb',
  gpus: 'sign(vram_mb)',
} as const;

type SumColumn = `${(typeof STAGES)[number]}_${keyof typeof MEASURES}`;

type DemandRow = { readonly at: Date; readonly shapes: string } & Readonly<
  Record<SumColumn | (typeof STAGES)[number] | 'cpu' | 'ram_mb' | 'vram_mb', string | null>
>;

const SUMS = STAGES.flatMap((stage) =>
  Object.entries(MEASURES).map(([name, each]) => `sum(${stage} * ${each}) as ${stage}_${name}`),
).join(',\n                ');

/** SQL of the table `run_demand`, which triggers write to, and of what is in execution. */
@Injectable()
export class RunDemandRepository {
  /**
   * What pending runs and runs in the hands of workers ask for, as one snapshot. The pending ones are not looked at one
   * by one: their number does not matter.
   * @param limit shapes at most that are told one by one
   */
  async read(executor: SqlExecutor, limit: number): Promise<RunDemand> {
    const found = await rows<DemandRow>(
      executor,
      `with shapes as materialized (
         select cpu, ram_mb, vram_mb,
                sum(ready) as ready, sum(waiting) as waiting, sum(in_execution) as in_execution
           from (
             select cpu, ram_mb, vram_mb, sum(ready) as ready, sum(waiting) as waiting, 0 as in_execution
               from run_demand
              group by cpu, ram_mb, vram_mb
              union all
             select cpu, ram_mb, vram_mb, 0, 0, count(*)
               from runs
              where state in ('ASSIGNED', 'RUNNING')
                and worker_id is not null
              group by cpu, ram_mb, vram_mb
           ) counted
          group by cpu, ram_mb, vram_mb
         having sum(ready) <> 0 or sum(waiting) <> 0 or sum(in_execution) <> 0
       ),
       sums as materialized (
         select date_trunc('milliseconds', statement_timestamp()) as at,
                count(*) as shapes,
                ${SUMS}
           from shapes
       ),
       largest as materialized (
         select *
           from shapes
          order by ready + waiting desc, in_execution desc, cpu, ram_mb, vram_mb
          limit $1::integer
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
      shapeCount: Number(first.shapes),
      ready: sumOf(first, 'ready'),
      waiting: sumOf(first, 'waiting'),
      inExecution: sumOf(first, 'in_execution'),
    };
  }

  /** Takes the right to roll up until the transaction ends; false when another process has it. */
  lockRollUp(manager: EntityManager): Promise<boolean> {
    return tryLock(manager, ROLL_UP_LOCK);
  }

  /**
   * Adds rows of seconds to the one of their shape, and removes them; a bounded number. A transaction that is just
   * writing to one of them is not waited for.
   * @param before those of seconds before this time are summed up
   * @returns how many rows it removed
   */
  async rollUp(manager: EntityManager, before: Date, limit: number): Promise<number> {
    const [row] = await rows<{ removed: string }>(
      manager,
      `with old as materialized (
         select since, slot, cpu, ram_mb, vram_mb
           from run_demand
          where since > '-infinity'
            and since < $1::timestamptz
          order by since, slot, cpu, ram_mb, vram_mb
          limit $2::integer
            for update skip locked
       ),
       removed as (
         delete from run_demand d
          using old
          where d.since = old.since
            and d.slot = old.slot
            and d.cpu = old.cpu
            and d.ram_mb = old.ram_mb
            and d.vram_mb = old.vram_mb
      returning d.cpu, d.ram_mb, d.vram_mb, d.ready, d.waiting
       ),
       added as (
         insert into run_demand as d (since, slot, cpu, ram_mb, vram_mb, ready, waiting)
         select '-infinity', 0, cpu, ram_mb, vram_mb, sum(ready), sum(waiting)
           from removed
          group by cpu, ram_mb, vram_mb
         having sum(ready) <> 0 or sum(waiting) <> 0
             on conflict (since, slot, cpu, ram_mb, vram_mb) do update
            set ready = d.ready + excluded.ready,
                waiting = d.waiting + excluded.waiting
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
        where since = '-infinity'
          and ready = 0
          and waiting = 0`,
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
    runs: Number(row[`${stage}_runs`] ?? 0),
    cpu: Number(row[`${stage}_cpu`] ?? 0),
    ramMb: Number(row[`${stage}_ram_mb`] ?? 0),
    vramMb: Number(row[`${stage}_vram_mb`] ?? 0),
    gpus: Number(row[`${stage}_gpus`] ?? 0),
  };
}

import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { inBatches } from '../../database/sql/in-batches.js';
import { execute, rows } from '../../database/sql/sql.js';
import { whenAlone } from '../../database/advisory-locks.js';
import { PENDING_SUMS } from './demand-sums.js';
import { removeEmptyRequirementDemand, rollUpRequirementDemand } from './requirement-demand.js';
import { type JobRun, SECOND, ScheduledJob } from '../../common/scheduling/scheduled-job.js';

const ROWS_PER_BATCH = 2000;

/** Milliseconds after which no transaction writes to the rows of a second any more. */
const SETTLED_MS = 10_000;

const ROLL_UP_LOCK = '6031175942280515';

/** Rolls up the changes of demand into the counts of their shapes and requirements, and into the sums. */
@Injectable()
export class RunDemandRollUp {
  constructor(private readonly dataSource: DataSource) {}

  @ScheduledJob({
    name: 'run_demand_roll_up',
    description: 'sums up the counts of pending runs by the second',
    everyMs: 30 * SECOND,
    level: 'debug',
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /** One pass, in short transactions, by one process at a time. @returns how many rows were rolled up */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const before = new Date(now.getTime() - SETTLED_MS);
    const removed = await inBatches(ROWS_PER_BATCH, stop, () =>
      this.#alone((manager) => this.#batch(manager, before)),
    );
    if (removed > 0) await this.#alone((manager) => this.#removeEmpty(manager));
    const restricted = await inBatches(ROWS_PER_BATCH, stop, () =>
      this.#alone((manager) => rollUpRequirementDemand(manager, before, ROWS_PER_BATCH)),
    );
    if (restricted > 0) await this.#alone(removeEmptyRequirementDemand);
    return removed + restricted;
  }

  async #alone(work: (manager: EntityManager) => Promise<number>): Promise<number> {
    return (await whenAlone(this.dataSource, ROLL_UP_LOCK, work)) ?? 0;
  }

  /** Rolls up changes of seconds before the time; skips rows that a transaction is writing to. */
  async #batch(manager: EntityManager, before: Date): Promise<number> {
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
      [before.toISOString(), ROWS_PER_BATCH],
    );
    return Number(row?.removed ?? 0);
  }

  /** Removes the rows of shapes that no pending run has any more. */
  #removeEmpty(manager: EntityManager): Promise<number> {
    return execute(
      manager,
      `delete from run_demand
        where ready + waiting = 0
          and ready = 0`,
    );
  }
}

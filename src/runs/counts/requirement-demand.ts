import { execute, rows, type SqlExecutor } from '../../database/sql/sql.js';
import { PLAIN_LANE as NO_REQUIREMENTS } from '../queue/lane.js';
import { jsonSum, PENDING_SUMS, sumsOf, type DemandSum } from './demand-sums.js';

/** What pending runs with the same requirements ask for. */
export interface PendingDemand {
  readonly ready: DemandSum;
  /** In back-off, or before their `start_at`. */
  readonly waiting: DemandSum;
  readonly inExecution: DemandSum;
  /** Ready runs that wait for runs of their concurrency key. */
  readonly heldBack: number;
}

export interface RequirementDemand extends PendingDemand {
  /** `tag:NAME` and `capability:NAME`. */
  readonly required: readonly string[];
}

/** What the runs that have requirements or a concurrency key ask for. */
export interface DemandByRequirements {
  /** Those with the most pending runs first, then those with the most in execution. */
  readonly largest: readonly RequirementDemand[];
  /** All runs with requirements. */
  readonly all: PendingDemand;
  /** Held back, of all runs without requirements. */
  readonly heldBackWithout: number;
}

/** The row with the sums of all others; that of `NO_REQUIREMENTS` has the runs with a concurrency key alone. */
const TOTAL = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const SUMS = PENDING_SUMS.map(({ name }) => name);
const COUNTS = ['held_back', ...SUMS];
const EXECUTING = sumsOf('in_execution').map(({ name }) => name);

const summed = (columns: readonly string[]): string =>
  columns.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(', ');

/** A `PendingDemand` of the columns of `s`. */
const JSON_DEMAND = `'heldBack', s.held_back, 'ready', ${jsonSum('ready')}, 'waiting', ${jsonSum('waiting')},
                  'inExecution', ${jsonSum('in_execution')}`;

/**
 * What runs ask for by their requirements, as one snapshot. Reads only the `limit` requirements with the most runs, those
 * that changed recently, and those of runs in execution.
 */
export async function readRequirementDemand(
  executor: SqlExecutor,
  limit: number,
): Promise<DemandByRequirements> {
  const [demand] = await rows<DemandByRequirements>(
    executor,
    `with recent as materialized (
       select requirement_id, max(required) as required, ${summed(COUNTS)}
         from requirement_demand_changes
        group by requirement_id
     ),
     executing as materialized (
       select requirement_id, min(id::text)::uuid as run_id, count(*) as in_execution_runs, sum(cpu) as in_execution_cpu,
              sum(ram_mb) as in_execution_ram_mb, sum(vram_mb) as in_execution_vram_mb,
              count(*) filter (where vram_mb > 0) as in_execution_gpus
         from runs
        where state in ('ASSIGNED', 'RUNNING')
          and worker_id is not null
          and requirement_id is not null
        group by requirement_id
     ),
     likely as materialized (
       (select requirement_id
          from requirement_demand
         where requirement_id not in ('${NO_REQUIREMENTS}', '${TOTAL}')
         order by ready_runs + waiting_runs desc
         limit $1::integer + (select count(*) from recent))
        union
       select requirement_id
         from recent
        where requirement_id <> '${NO_REQUIREMENTS}'
        union
       select requirement_id
         from executing
     ),
     largest as materialized (
       select l.requirement_id, e.run_id,
              greatest(d.required, r.required) as required,
              ${COUNTS.map((name) => `coalesce(d.${name}, 0) + coalesce(r.${name}, 0) as ${name}`).join(',\n              ')},
              ${EXECUTING.map((name) => `coalesce(e.${name}, 0) as ${name}`).join(', ')}
         from likely l
         left join lateral (
           select *
             from requirement_demand d
            where d.requirement_id = l.requirement_id
            limit 1
         ) d on true
         left join recent r on r.requirement_id = l.requirement_id
         left join executing e on e.requirement_id = l.requirement_id
     ),
     counted as materialized (
       select *
         from (
           select requirement_id, ${COUNTS.join(', ')}
             from requirement_demand
            where requirement_id in ('${NO_REQUIREMENTS}', '${TOTAL}')
            union all
           select requirement_id, ${COUNTS.join(', ')}
             from recent
            where requirement_id = '${NO_REQUIREMENTS}'
            union all
           select '${TOTAL}', ${COUNTS.join(', ')}
             from recent
         ) c
     ),
     without as (
       select ${summed(COUNTS)}
         from counted
        where requirement_id = '${NO_REQUIREMENTS}'
     ),
     everything as (
       select ${COUNTS.map((name) => `t.${name} - w.${name} as ${name}`).join(', ')}, e.*
         from (select ${summed(COUNTS)} from counted where requirement_id = '${TOTAL}') t,
              without w,
              (select ${summed(EXECUTING)} from executing) e
     )
     select coalesce((
              select json_agg(json_build_object(
                       'required', coalesce(s.required, required_by(r.selector, r.container)), ${JSON_DEMAND}
                     ) order by s.ready_runs + s.waiting_runs desc, s.in_execution_runs desc, s.requirement_id)
                from (
                  select *
                    from largest
                   where ready_runs <> 0
                      or waiting_runs <> 0
                      or in_execution_runs <> 0
                   order by ready_runs + waiting_runs desc, in_execution_runs desc, requirement_id
                   limit $1::integer
                ) s
                left join runs r on s.required is null and r.id = s.run_id
            ), '[]') as largest,
            (select json_build_object(${JSON_DEMAND}) from everything s) as all,
            (select held_back from without)::float8 as "heldBackWithout"`,
    [limit],
  );
  if (demand === undefined) throw new Error('the database returned no demand');
  return demand;
}

/** Rolls up changes of seconds before the time; skips rows that a transaction is writing to. @returns how many */
export async function rollUpRequirementDemand(
  executor: SqlExecutor,
  before: Date,
  limit: number,
): Promise<number> {
  const [row] = await rows<{ removed: number }>(
    executor,
    `with old as materialized (
       select since, slot, requirement_id
         from requirement_demand_changes
        where since < $1::timestamptz
        order by since, slot, requirement_id
        limit $2::integer
          for update skip locked
     ),
     removed as (
       delete from requirement_demand_changes c
        using old
        where c.since = old.since
          and c.slot = old.slot
          and c.requirement_id = old.requirement_id
    returning c.*
     ),
     added as (
       insert into requirement_demand as d (requirement_id, required, ${COUNTS.join(', ')})
       select requirement_id, max(required), ${summed(COUNTS)}
         from removed
        group by requirement_id
        union all
       select '${TOTAL}', '{}', ${summed(COUNTS)}
         from removed
       having count(*) > 0
           on conflict (requirement_id) do update
          set required = greatest(d.required, excluded.required),
              ${COUNTS.map((name) => `${name} = d.${name} + excluded.${name}`).join(', ')}
     )
     select count(*)::integer as removed
       from removed`,
    [before.toISOString(), limit],
  );
  return row?.removed ?? 0;
}

/** Removes the rows of requirements that no pending run has any more. */
export function removeEmptyRequirementDemand(executor: SqlExecutor): Promise<number> {
  return execute(
    executor,
    `delete from requirement_demand
      where ready_runs + waiting_runs = 0
        and ready_runs = 0
        and held_back = 0
        and requirement_id <> '${TOTAL}'`,
  );
}

import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { execute, rows, type SqlExecutor } from '../../database/sql/sql.js';
import { RunCountsRepository } from '../../runs/counts/run-counts.repository.js';
import { HELD } from '../../runs/machine/run.js';
import { QueueReader } from '../../runs/queue/queue.reader.js';
import { PLAIN_LANE } from '../../runs/queue/lane.js';
import { HOLDS, IS_ACTIVE, IS_OF_ALL } from '../../runs/queue/pauses.js';
import { requirementList, requirementsOf, type RequiringRun } from '../../runs/requirements.js';
import type { HeldRun, Shape } from '../../runs/scheduling-strategy.js';
import { HeldRunRepository } from '../../runs/storage/held-run.repository.js';
import { CPU_MILLIS, GPUS } from '../../runs/storage/run-columns.js';

/** Pending runs that a reading counts at most. */
export const MAX_COUNTED = 100_000;

/** Kinds of ready runs, by requirements and shape, that a reading has at most. */
const MAX_KINDS = 1_000;

/** What a number of runs ask for together. */
export interface DemandSum extends Shape {
  readonly runs: number;
  /** Whole GPUs, and one for each run that asks for a share of one. */
  readonly gpus: number;
}

export interface RunNumbers {
  /** Pending and in the queue, without paused ones. */
  readonly ready: number;
  /** Pending, in back-off, before their `start_at`, behind a dependency or paused. */
  readonly waiting: number;
  /** Assigned to a worker or running on it. */
  readonly inExecution: number;
}

export interface ShapeDemand extends RunNumbers, Shape {}

/** What runs ask for together, by stage. */
export interface StageDemand extends Readonly<Record<keyof RunNumbers, DemandSum>> {
  /** Ready runs that wait for runs of their concurrency key. */
  readonly heldBack: number;
}

export interface RequirementDemand extends StageDemand {
  /** As `requirementList`; empty: any worker may get the runs. */
  readonly required: readonly string[];
}

/** Ready runs that require the same of a worker and have the same shape. */
export interface KindDemand extends Shape {
  /** As `requirementList`. */
  readonly required: readonly string[];
  /** Those that do not wait for runs of their concurrency key. */
  readonly admitted: number;
}

/** What the runs that have not ended ask for. */
export interface Demand {
  /** The database's time. */
  readonly at: Date;
  readonly all: StageDemand;
  /** How many of the waiting runs wait for their `start_at`. */
  readonly startAt: number;
  /** How many of the waiting runs a pause holds. */
  readonly paused: number;
  /** How many of the waiting runs wait for the end of the run of their schedule before. */
  readonly held: number;
  /** How many of the waiting runs depend on runs or groups. */
  readonly dependent: number;
  /** The largest kinds of ready runs. */
  readonly kinds: readonly KindDemand[];
  /** True: there may be more pending runs than were counted. */
  readonly isAtLeast: boolean;
  /** Those with the most pending runs first, then those with the most in execution. */
  readonly shapes: readonly ShapeDemand[];
  /** Runs without requirements, or null if there are none. */
  readonly unrestricted: RequirementDemand | null;
  /** The requirements of the others, in the order of `shapes`. */
  readonly requirements: readonly RequirementDemand[];
}

/** The requirements of a lane or, for runs that are not in the queue, of one of these runs. */
interface FoundRequirement extends StageDemand {
  readonly required: readonly string[] | null;
  readonly run: RequiringRun | null;
}

interface FoundDemand extends Omit<Demand, 'requirements'> {
  readonly requirements: readonly FoundRequirement[];
}

/** What the runs that have not ended ask for, and what the workers hold. */
export interface DemandSnapshot {
  readonly demand: Demand;
  /** When the oldest pending run was created; null when none is. */
  readonly oldestPendingAt: Date | null;
  /** The runs that the workers hold, by worker; a worker that holds none is absent. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Ids of workers that are reserved for a run. */
  readonly reserved: ReadonlySet<string>;
}

/** Reads demand and held runs, at a cost that does not grow with the number of pending and ended runs. */
@Injectable()
export class DemandReader {
  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly heldRuns: HeldRunRepository,
    private readonly queue: QueueReader,
  ) {}

  /**
   * Reads one snapshot, so a run that is claimed meanwhile is either pending or held.
   * @param limit shapes, and requirements, at most
   * @param maxCounted pending runs, at most
   */
  read(limit: number, maxCounted = MAX_COUNTED): Promise<DemandSnapshot> {
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      // Statistics lag behind a queue that grows by a million, so the planner would choose sequential scans. As many groups
      // as runs fit into the memory.
      await execute(
        manager,
        `select set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
                set_config('work_mem', '16MB', true)`,
      );
      const demand = await countDemand(manager, limit, maxCounted);
      const { ready, waiting } = demand.all;
      return {
        demand,
        oldestPendingAt: await this.counts.findOldestPending(manager, ready.runs + waiting.runs),
        held: await this.heldRuns.findHeld(manager, 'all'),
        reserved: new Set(await this.queue.listReservedWorkers(manager)),
      };
    });
  }
}

/** The sum of one stage over `groups`, as a `DemandSum`. */
const sumOf = (stage: string): string => `json_build_object(
                  'runs', coalesce(sum(${stage}), 0),
                  'cpuMillis', coalesce(sum(${stage} * cpu_millis), 0),
                  'ramMb', coalesce(sum(${stage} * ram_mb), 0),
                  'vramMb', coalesce(sum(${stage} * vram_mb * greatest(gpus, 1)), 0),
                  'gpus', coalesce(sum(${stage} * greatest(gpus, sign(vram_mb))), 0))`;

/** The columns of a `StageDemand`, over `groups`. */
const STAGES = `${sumOf('ready')} as ready,
                ${sumOf('waiting')} as waiting,
                ${sumOf('in_execution')} as "inExecution",
                coalesce(sum(held_back), 0) as "heldBack"`;

const LARGEST_FIRST = 'sum(ready + waiting) desc, sum(in_execution) desc';

/**
 * Counts the pending runs that come first: a quarter of `maxCounted` may wait, in the order in which their wait ends, and half
 * may stand in other lanes than the plain one, which have equal shares of them. Counts all runs in execution, which the workers limit.
 */
async function countDemand(executor: SqlExecutor, limit: number, maxCounted: number): Promise<Demand> {
  const [found] = await rows<FoundDemand>(
    executor,
    `with pause as materialized (
       select exists (select from pauses p where ${IS_OF_ALL} and ${IS_ACTIVE}) as holds_all
     ),
     waiting as materialized (
       select id, requirement_id, ${CPU_MILLIS} as cpu_millis, ram_mb, vram_mb,
              ${GPUS} as gpus, not_before = start_at as is_start, waits_for is not null as is_dependent,
              not_before = '${HELD.toISOString()}' and waits_for is null as is_held,
              not_before = '${HELD.toISOString()}' and waits_for is null and exists (select from pauses p where ${HOLDS}) as is_paused
         from runs r
        where not_before is not null
        order by not_before
        limit $1::integer / 4
     ),
     restricted as materialized (
       select l.*, q.*
         from (
           select l.id as lane, l.requirement_id, greatest(1, $1::integer / 2 / count(*) over ()) as share
             from lanes l
            where exists (select from queue q where q.lane = l.id)
         ) l
        cross join lateral (
          select one.*
            from (
              (${firstOfLane('is_admitted')})
               union all
              (${firstOfLane('not is_admitted')})
            ) one
           limit l.share
        ) q
        order by l.lane
        limit $1::integer / 2
     ),
     plain as (
       select one.*
         from (
           (select cpu_millis, ram_mb, vram_mb, gpus, is_paused
              from queue
             where lane = '${PLAIN_LANE}'
               and is_admitted
             order by priority desc, created_at, run_id
             limit $1::integer)
            union all
           (select cpu_millis, ram_mb, vram_mb, gpus, is_paused
              from queue
             where lane = '${PLAIN_LANE}'
               and not is_admitted
             order by priority desc, created_at, run_id
             limit $1::integer)
         ) one
        limit $1::integer - (select count(*) from waiting) - (select count(*) from restricted)
     ),
     -- As double precision, their sums are exact up to 2^53 and fast.
     groups as materialized (
       select requirement_id, cpu_millis, ram_mb, vram_mb, gpus, min(run_id) as run_id, min(lane) as lane,
              (count(*) filter (where stage in ('ready', 'held back')))::float8 as ready,
              (count(*) filter (where stage = 'held back'))::float8 as held_back,
              (count(*) filter (where stage in ('waiting', 'paused')))::float8 as waiting,
              (count(*) filter (where stage = 'paused'))::float8 as paused,
              (count(*) filter (where stage = 'in execution'))::float8 as in_execution
         from (
           select null::uuid as requirement_id, cpu_millis, ram_mb, vram_mb, gpus,
                  case when is_paused or holds_all then 'paused' else 'ready' end as stage, null as run_id, null as lane
             from plain, pause
            union all
           select requirement_id, cpu_millis, ram_mb, vram_mb, gpus,
                  case when is_paused or holds_all then 'paused' when is_admitted then 'ready' else 'held back' end, null, lane::text
             from restricted, pause
            union all
           select requirement_id, cpu_millis, ram_mb, vram_mb, gpus, case when is_paused then 'paused' else 'waiting' end, id::text, null
             from waiting
            union all
           select requirement_id, cpu_millis, ram_mb, vram_mb, gpus, 'in execution', run_id::text, null
             from executions
            where worker_id <> ''
         ) open
        group by requirement_id, cpu_millis, ram_mb, vram_mb, gpus
     ),
     shapes as (
       select cpu_millis as "cpuMillis", ram_mb as "ramMb", vram_mb as "vramMb", gpus, sum(ready) as ready, sum(waiting) as waiting,
              sum(in_execution) as "inExecution"
         from groups
        group by cpu_millis, ram_mb, vram_mb, gpus
        order by ${LARGEST_FIRST}, cpu_millis, ram_mb, vram_mb, gpus
        limit $2::integer
     ),
     kinds as (
       select coalesce(${requiredOfLane('g.lane::uuid')}, '{}') as required,
              g.cpu_millis as "cpuMillis", g.ram_mb as "ramMb", g.vram_mb as "vramMb", g.gpus, g.ready - g.held_back as admitted
         from groups g
        where g.ready > g.held_back
        order by g.ready - g.held_back desc, g.requirement_id, g.cpu_millis, g.ram_mb, g.vram_mb, g.gpus
        limit ${MAX_KINDS}
     ),
     -- Runs that are not in the queue may have no lane.
     requirements as (
       select ${requiredOfLane('l.lane')} as required,
              (select json_build_object(
                        'selector', r.selector, 'options', r.options, 'cpu', r.cpu, 'vramMb', r.vram_mb,
                        'extraConstraints', r.extra_constraints
                      )
                 from runs r
                where r.id = l.run_id
                  and l.lane is null) as run,
              l.ready, l.waiting, l."inExecution", l."heldBack"
         from (
           select requirement_id, min(run_id)::uuid as run_id, min(lane)::uuid as lane,
                ${STAGES}
             from groups
            where requirement_id in (
                    select requirement_id
                      from groups
                     where requirement_id is not null
                     group by requirement_id
                     order by ${LARGEST_FIRST}, requirement_id
                     limit $2::integer
                  )
            group by requirement_id
            order by ${LARGEST_FIRST}, requirement_id
         ) l
     ),
     unrestricted as (
       select '{}'::text[] as required, ${STAGES}
         from groups
        where requirement_id is null
       having count(*) > 0
     ),
     everything as (
       select ${STAGES}
         from groups
     )
     select date_trunc('milliseconds', statement_timestamp()) as at,
            (select row_to_json(e) from everything e) as all,
            (select count(*) from waiting) >= $1::integer / 4
              or (select count(*) from restricted) >= $1::integer / 2
              or exists (select from restricted group by lane, share having count(*) >= share)
              or coalesce((select sum(ready + waiting) from groups) >= $1::integer, false) as "isAtLeast",
            (select count(*) from waiting where is_start)::integer as "startAt",
            coalesce((select sum(paused) from groups), 0)::integer as paused,
            (select count(*) from waiting where is_held and not is_paused)::integer as held,
            (select count(*) from waiting where is_dependent)::integer as dependent,
            coalesce((select json_agg(k) from kinds k), '[]') as kinds,
            coalesce((select json_agg(s) from shapes s), '[]') as shapes,
            (select row_to_json(u) from unrestricted u) as unrestricted,
            coalesce((select json_agg(r) from requirements r), '[]') as requirements`,
    [maxCounted, limit],
  );
  if (found === undefined) throw new Error('the query of demand returned no row');
  const requirements = found.requirements.map(({ required, run, ...stages }) => ({
    required: required ?? (run ? requirementList(requirementsOf(run)) : []),
    ...stages,
  }));
  return { ...found, requirements };
}

/** The `requirementList` of the runs of a lane, which requires more; null: there is none. */
function requiredOfLane(lane: string): string {
  return `(select array(select e from unnest(x.required) e where e ~ '^(tag|capability|gpus?):')
                 from lanes x
                where x.id = ${lane})`;
}

/** The first rows of the lane `l`, as many as its share. */
function firstOfLane(condition: string): string {
  return `select cpu_millis, ram_mb, vram_mb, gpus, is_admitted, is_paused
                 from queue
                where lane = l.lane
                  and ${condition}
                order by priority desc, created_at, run_id
                limit l.share`;
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { plainArray, rows } from '../../database/sql/sql.js';
import type { CandidateQuery, Claimant, QueuedRun, Shape } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import { KEYS } from './concurrency-keys.js';
import { offerOf, PLAIN, type Lane } from './lane.js';
import { findEmptyLanes } from './lane.repository.js';
import { Lanes } from './lanes.js';

/** A shape that every run fits into. */
export const UNLIMITED = { cpu: 2 ** 31 - 1, ramMb: 2 ** 31 - 1, vramMb: 2 ** 31 - 1 } as const;

/** Runs beyond the limit of the strategy that one claim considers: keys of the first ones may be full or locked. */
const LOOK_AHEAD = 16;

/** A run of the queue that claims may read. */
export interface CandidateRun extends QueuedRun {
  readonly lane: string;
  /** Runs with its key that are in execution; null: it has no key. */
  readonly executing: number | null;
}

const ORDER = 'priority desc, created_at, run_id';

const LIST = listOf(false);
const LIST_WITH_PASSED_OVER = listOf(true);

/** What a claim considers. */
export interface Candidates {
  readonly runs: readonly CandidateRun[];
  /** The lanes that some of the claimants may serve, by id. */
  readonly lanes: ReadonlyMap<string, Lane>;
}

interface ListOptions {
  /** Ids of runs that are left out. */
  readonly except?: readonly string[];
  /** Whether to list runs of the plain lane. */
  readonly withPlain?: boolean;
  /** See {@link Lanes.refresh}. */
  readonly mayForget?: boolean;
}

/** The first runs of the lanes, which claims may read. */
@Injectable()
export class LaneHeads {
  constructor(private readonly lanes: Lanes) {}

  /** The first runs that any of the claimants may get by its tags and capabilities, in queue order, without locks. */
  async list(
    manager: EntityManager,
    claimants: readonly Claimant[],
    query: CandidateQuery,
    { except = [], withPlain = false, mayForget = true }: ListOptions = {},
  ): Promise<Candidates> {
    await this.lanes.refresh(manager, mayForget);
    const { version } = this.lanes;
    const kinds = new Map<string, readonly Lane[]>();
    for (const claimant of claimants) {
      const served = this.lanes.servedBy(offerOf(claimant));
      kinds.set(served.map(({ id }) => id).join(), withPlain ? [PLAIN, ...served] : served);
    }
    const lanes = new Map([...kinds.values()].flat().map((lane) => [lane.id, lane]));
    if (lanes.size === 0) return { runs: [], lanes };
    const { limit, capacity = [UNLIMITED], free = [], passedOverBefore } = query;
    const shapes = distinct([...capacity, ...free]);
    const served = [...kinds.values()].flatMap((list, kind) => list.map(({ id }) => ({ kind, id })));
    const params = [
      served.map(({ kind }) => kind),
      plainArray(served.map(({ id }) => id)),
      shapes.map(({ cpu }) => cpu),
      shapes.map(({ ramMb }) => ramMb),
      shapes.map(({ vramMb }) => vramMb),
      limit + LOOK_AHEAD + except.length,
      claimants.map(({ id }) => id),
      except,
    ];
    const runs = await (passedOverBefore
      ? rows<CandidateRun>(manager, LIST_WITH_PASSED_OVER, [...params, passedOverBefore.toISOString()])
      : rows<CandidateRun>(manager, LIST, params));
    if (mayForget) await this.#forgetEmpty(manager, lanes, runs, version);
    return { runs, lanes };
  }

  async #forgetEmpty(
    manager: EntityManager,
    lanes: ReadonlyMap<string, Lane>,
    runs: readonly CandidateRun[],
    version: number,
  ): Promise<void> {
    const seen = new Set(runs.map(({ lane }) => lane));
    const unseen = this.lanes.toCheck([...lanes.keys()].filter((id) => !seen.has(id)));
    if (unseen.length === 0) return;
    this.lanes.foundEmpty(await findEmptyLanes(manager, unseen), version);
  }
}

function listOf(withPassedOver: boolean): string {
  // Claimants that may serve the same lanes are of one kind. The first runs of each lane are read once, by one index step;
  // each kind gets the first of its lanes: runs that no claimant may get, and runs whose key is full, cost nothing. `offset 0`
  // keeps the planner from joining by a scan of the whole table.
  return `with served as materialized (
         select *
           from unnest($1::integer[], $2::uuid[]) as s (kind, lane)
       ),
       lane as materialized (
         select distinct lane as id
           from served
       ),
       shape as materialized (
         select row_number() over () as n, s.*
           from unnest($3::integer[], $4::integer[], $5::integer[]) as s (cpu, ram_mb, vram_mb)
       ),
       first as (
         ${firstOfKind('true')}
          union
         ${withPassedOver ? `${firstOfKind('q.passed_over_at is not null and q.passed_over_at <= $9::timestamptz')} union` : ''}
         select q.run_id
           from (
             select run_id, lane
               from ${QUEUE.name}
              where reserved_for is not null
                and reserved_for = any($7::text[])
                and is_admitted
             offset 0
           ) q
           join lane l on l.id = q.lane
       )
       select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}, q.lane,
              case
                when q.concurrency_key is not null
                then coalesce((select k.executing from ${KEYS.name} k where k.key = q.concurrency_key), 0)
              end as executing
         from first f
        cross join lateral (select * from ${QUEUE.name} where run_id = f.run_id offset 0) q
        cross join lateral (select * from ${RUNS.name} where id = f.run_id offset 0) r
        where not f.run_id = any($8::uuid[])
        order by q.priority desc, q.created_at, q.run_id`;
}

/** For each kind of claimants and shape, its first rows with the condition. */
function firstOfKind(condition: string): string {
  return `(select n.run_id
           from (
             select f.run_id, row_number() over (partition by s.kind, f.shape order by f.priority desc, f.created_at, f.run_id) as nth
               from (
                 select l.id as lane, s.n as shape, q.*
                   from lane l
                  cross join shape s
                  cross join lateral (
                    select q.run_id, q.priority, q.created_at
                      from ${QUEUE.name} q
                     where q.lane = l.id
                       and q.is_admitted
                       and ${condition}
                       and q.cpu <= s.cpu
                       and q.ram_mb <= s.ram_mb
                       and q.vram_mb <= s.vram_mb
                     order by ${ORDER}
                     limit $6::integer
                  ) q
               ) f
               join served s on s.lane = f.lane
           ) n
          where n.nth <= $6::integer)`;
}

function distinct(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [`${shape.cpu} ${shape.ramMb} ${shape.vramMb}`, shape])).values()];
}

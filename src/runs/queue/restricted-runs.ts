import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { plainArray, rows } from '../../database/sql/sql.js';
import type { CandidateQuery, Claimant, QueuedRun, Shape } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE_NOTES, RESTRICTED, RUNS } from '../storage/run-columns.js';
import { byIndexOrder } from './by-index-order.js';
import { KEYS } from './concurrency-keys.js';
import { offerOf, type Lane } from './lane.js';
import { findEmptyLanes } from './lane.repository.js';
import { Lanes } from './lanes.js';

/** A shape that every run fits into. */
export const UNLIMITED = { cpu: 2 ** 31 - 1, ramMb: 2 ** 31 - 1, vramMb: 2 ** 31 - 1 } as const;

/** Runs beyond the limit of the strategy that one claim considers: keys of the first ones may be full or locked. */
const LOOK_AHEAD = 16;

/** A run of the restricted queue that claims may read. */
export interface RestrictedRun extends QueuedRun {
  readonly lane: string;
  /** Runs with its key that are in execution; null: it has no key. */
  readonly executing: number | null;
}

const ORDER = 'priority desc, created_at, run_id';

// Claimants that may serve the same lanes are of one kind. The first runs of each lane are read once, by one index step;
// each kind gets the first of its lanes: runs that no claimant may get, and runs whose key is full, cost nothing. `offset 0`
// keeps the planner from joining by a scan of the whole table.
const LIST = `with served as materialized (
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
         ${firstOfKind('true', `$6::integer + ${LOOK_AHEAD}`)}
          union
         ${firstOfKind('q.passed_over_at is not null and q.passed_over_at <= $7::timestamptz', '$6::integer')}
          union
         select q.run_id
           from (
             select run_id, lane
               from ${RESTRICTED.name}
              where reserved_for is not null
                and reserved_for = any($8::text[])
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
        cross join lateral (select * from ${RESTRICTED.name} where run_id = f.run_id offset 0) q
        cross join lateral (select * from ${RUNS.name} where id = f.run_id offset 0) r
        where not f.run_id = any($9::uuid[])
        order by q.priority desc, q.created_at, q.run_id`;

/** The runs of the restricted queue that claims may read. */
@Injectable()
export class RestrictedRuns {
  constructor(private readonly lanes: Lanes) {}

  /**
   * The first of them that any of the claimants may get by its tags and capabilities, in queue order, without locks.
   * @param except ids of runs that are left out
   * @param mayForget see {@link Lanes.refresh}
   */
  async list(
    manager: EntityManager,
    claimants: readonly Claimant[],
    query: CandidateQuery,
    { except = [], mayForget = true }: { except?: readonly string[]; mayForget?: boolean } = {},
  ): Promise<{ readonly runs: readonly RestrictedRun[]; readonly lanes: ReadonlyMap<string, Lane> }> {
    await this.lanes.refresh(manager, mayForget);
    const { version } = this.lanes;
    const kinds = new Map<string, readonly Lane[]>();
    for (const claimant of claimants) {
      const served = this.lanes.servedBy(offerOf(claimant));
      kinds.set(served.map(({ id }) => id).join(), served);
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
      limit + except.length,
      passedOverBefore?.toISOString() ?? null,
      claimants.map(({ id }) => id),
      except,
    ];
    const runs = await byIndexOrder(manager, () => rows<RestrictedRun>(manager, LIST, params));
    if (mayForget) await this.#forgetEmpty(manager, lanes, runs, version);
    return { runs, lanes };
  }

  async #forgetEmpty(
    manager: EntityManager,
    lanes: ReadonlyMap<string, Lane>,
    runs: readonly RestrictedRun[],
    version: number,
  ): Promise<void> {
    const seen = new Set(runs.map(({ lane }) => lane));
    const unseen = this.lanes.toCheck([...lanes.keys()].filter((id) => !seen.has(id)));
    if (unseen.length === 0) return;
    this.lanes.foundEmpty(await findEmptyLanes(manager, unseen), version);
  }
}

/** For each kind of claimants and shape, its first rows with the condition. */
function firstOfKind(condition: string, limit: string): string {
  return `(select n.run_id
           from (
             select f.run_id, row_number() over (partition by s.kind, f.shape order by f.priority desc, f.created_at, f.run_id) as nth
               from (
                 select l.id as lane, s.n as shape, q.*
                   from lane l
                  cross join shape s
                  cross join lateral (
                    select q.run_id, q.priority, q.created_at
                      from ${RESTRICTED.name} q
                     where q.lane = l.id
                       and q.is_admitted
                       and ${condition}
                       and q.cpu <= s.cpu
                       and q.ram_mb <= s.ram_mb
                       and q.vram_mb <= s.vram_mb
                     order by ${ORDER}
                     limit ${limit}
                  ) q
               ) f
               join served s on s.lane = f.lane
           ) n
          where n.nth <= ${limit})`;
}

function distinct(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [`${shape.cpu} ${shape.ramMb} ${shape.vramMb}`, shape])).values()];
}

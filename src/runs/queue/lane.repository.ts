import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, plainArray, RowArrays, rows } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import { MAX_GPUS } from '../machine/event-types.js';
import { requirementsOf, type RequiringRun } from '../requirements.js';
import type { CandidateQuery, QueuedRun, Shape } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE_NOTES, REQUIRING_COLUMNS } from '../storage/run-columns.js';
import { laneOf, PLAIN_LANE, requiredOf, type Lane } from './lane.js';

/** How often rows are looked for that the removal of unused ones may take away meanwhile. */
const TRIES = 5;

/** A run of the lane `l`. */
const RUN_OF_LANE = `select from queue q where q.lane = l.id`;

const INSERT = `insert into lanes (id, requirement_id, required)
       select v.id, v.requirement_id, array(select json_array_elements_text(v.required))
         from unnest($1::uuid[], $2::uuid[], $3::json[]) as v (id, requirement_id, required)
        order by v.id
           on conflict (id) do nothing`;
const NEW_LANES = RowArrays.of<'id' | 'requirementId' | 'required'>(INSERT);

/** The lanes that have runs which claims may read. @param except ids of lanes that are left out */
export function listActiveLanes(manager: EntityManager, except: readonly string[] = []): Promise<Lane[]> {
  return rows<Lane>(
    manager,
    `select l.id, l.required
         from lanes l
        where l.id <> all($1::uuid[])
          and exists (${RUN_OF_LANE} and q.is_admitted)`,
    [plainArray(except)],
  );
}

/** Those of the lanes that have no run which claims may read. */
export async function findEmptyLanes(manager: EntityManager, ids: readonly string[]): Promise<string[]> {
  const found = await rows<{ id: string }>(
    manager,
    `select l.id
       from unnest($1::uuid[]) as l (id)
      where not exists (${RUN_OF_LANE} and q.is_admitted)`,
    [plainArray(ids)],
  );
  return found.map(({ id }) => id);
}

/** A shape that every run fits into. */
const UNLIMITED: Shape = {
  cpuMillis: 2 ** 31 * 1000,
  ramMb: 2 ** 31 - 1,
  vramMb: 2 ** 31 - 1,
  gpus: MAX_GPUS,
};

/** Runs beyond the limit of the strategy that one claim considers: keys of the first ones may be full or locked. */
const LOOK_AHEAD = 16;

/** A run of the queue that claims may read. */
export interface CandidateRun extends QueuedRun {
  readonly lane: string;
  /** Runs with its key that are in execution; null: it has no key. */
  readonly executing: number | null;
}

// Claimants that may serve the same lanes are of one kind. The first runs of each lane are read once, by one index step;
// each kind gets the first of its lanes: runs that no claimant may get, and runs whose key is full, cost nothing. `offset 0`
// keeps the planner from joining by a scan of the whole table.
const SERVED = `served as materialized (select * from unnest($1::integer[], $2::uuid[]) as s (kind, lane)),
       lane as materialized (select distinct lane as id from served),
       shape as materialized (
         select row_number() over () as n, s.*
           from unnest($3::bigint[], $4::integer[], $5::integer[], $6::integer[]) as s (cpu_millis, ram_mb, vram_mb, gpus)
       )`;
const RANKED = `select f.run_id, row_number() over (partition by s.kind, f.shape order by f.priority desc, f.created_at, f.run_id) as nth`;
const FITS = `q.lane = l.id and q.is_admitted
                       and q.cpu_millis <= s.cpu_millis and q.ram_mb <= s.ram_mb and q.vram_mb <= s.vram_mb and q.gpus <= s.gpus`;
const FIRST = `select n.run_id
           from (
             ${RANKED}
               from (
                 select l.id as lane, s.n as shape, q.*
                   from lane l
                  cross join shape s
                  cross join lateral (
                    select q.run_id, q.priority, q.created_at
                      from queue q
                     where ${FITS}
                     order by priority desc, created_at, run_id
                     limit $7::integer
                  ) q
               ) f
               join served s on s.lane = f.lane
           ) n
          where n.nth <= $7::integer`;
const RESERVED = `select q.run_id
           from (
             select run_id, lane from queue where reserved_for is not null and reserved_for = any($8::text[]) and is_admitted offset 0
           ) q
           join lane l on l.id = q.lane`;
const CANDIDATES = `select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}, q.lane,
              case when q.concurrency_key is not null
                then coalesce((select k.executing from concurrency_keys k where k.key = q.concurrency_key), 0)
              end as executing
         from first f
        cross join lateral (select * from queue where run_id = f.run_id offset 0) q
        cross join lateral (select * from runs where id = f.run_id offset 0) r
        where not f.run_id = any($9::uuid[])
        order by q.priority desc, q.created_at, q.run_id`;
const LIST = `with ${SERVED}, first as (${FIRST} union ${RESERVED}) ${CANDIDATES}`;
const LIST_WITH_PASSED_OVER = `with ${SERVED},
       first as (
         ${FIRST}
          union
         select n.run_id
           from (
             ${RANKED}
               from (
                 select l.id as lane, s.n as shape, q.*
                   from lane l
                  cross join shape s
                  cross join lateral (
                    select q.run_id, q.priority, q.created_at
                      from queue q
                     where ${FITS}
                       and q.passed_over_at is not null and q.passed_over_at <= $10::timestamptz
                     order by priority desc, created_at, run_id
                     limit $7::integer
                  ) q
               ) f
               join served s on s.lane = f.lane
           ) n
          where n.nth <= $7::integer
          union
         ${RESERVED}
       )
       ${CANDIDATES}`;

/**
 * The first runs of the lanes, in queue order, without locks.
 * @param kinds the lanes that claimants of each kind may serve
 * @param except ids of runs that are left out
 */
export function listCandidates(
  manager: EntityManager,
  kinds: readonly (readonly Lane[])[],
  workerIds: readonly string[],
  { limit, capacity = [UNLIMITED], free = [], passedOverBefore }: CandidateQuery,
  except: readonly string[],
): Promise<CandidateRun[]> {
  const served = kinds.flatMap((lanes, kind) => lanes.map(({ id }) => ({ kind, id })));
  const shapes = distinct([...capacity, ...free]);
  const params = [
    served.map(({ kind }) => kind),
    plainArray(served.map(({ id }) => id)),
    shapes.map(({ cpuMillis }) => cpuMillis),
    shapes.map(({ ramMb }) => ramMb),
    shapes.map(({ vramMb }) => vramMb),
    shapes.map(({ gpus }) => gpus),
    limit + LOOK_AHEAD + except.length,
    workerIds,
    except,
  ];
  return passedOverBefore
    ? rows(manager, LIST_WITH_PASSED_OVER, [...params, passedOverBefore.toISOString()])
    : rows(manager, LIST, params);
}

/** SQL of the table `lanes`: those of the pending runs, except the plain one. */
@Injectable()
export class LaneRepository {
  /**
   * Makes sure that the lanes of these stored runs are there, and stay until the transaction ends. Locks rows in the order of
   * their ids; call it before keys are locked. @returns the lanes
   */
  async ensure(manager: EntityManager, runs: readonly Run[]): Promise<Lane[]> {
    const runOf = new Map(runs.map((run) => [laneOf(run), run]));
    runOf.delete(PLAIN_LANE);
    if (runOf.size === 0) return [];
    const ids = [...runOf.keys()].toSorted();
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const kept = await rows<Lane>(
        manager,
        `select l.id, l.required
           from lanes l
          where l.id = any($1::uuid[])
          order by l.id
            for key share`,
        [plainArray(ids)],
      );
      if (kept.length === ids.length) return kept;
      const present = new Set(kept.map(({ id }) => id));
      await this.#insert(manager, new Map([...runOf].filter(([id]) => !present.has(id))));
    }
    throw new Error('the lane of a run was removed while the run entered the queue');
  }

  /** @param runOf for each new lane, a run that is in it */
  async #insert(manager: EntityManager, runOf: ReadonlyMap<string, Run>): Promise<void> {
    const found = await rows<RequiringRun & Pick<Run, 'id'>>(
      manager,
      `select r.id, ${REQUIRING_COLUMNS}
         from runs r
        where r.id = any($1::uuid[])`,
      [plainArray([...runOf.values()].map(({ id }) => id))],
    );
    const needsOf = new Map(found.map((run) => [run.id, requirementsOf(run)]));
    const fresh = [...runOf].flatMap(([id, run]) => {
      const needs = needsOf.get(run.id);
      const { requirementId } = run;
      return needs === undefined ? [] : [{ id, requirementId, required: requiredOf(run, needs) }];
    });
    await execute(manager, INSERT, NEW_LANES.params(fresh));
  }

  /**
   * Removes lanes without a run in the queue, among those after an id. A run that enters the queue at the same time keeps its
   * own. @returns the last id that was looked at; null: there are no more
   */
  async removeUnused(
    manager: EntityManager,
    after: string,
    limit: number,
  ): Promise<{ readonly last: string | null; readonly removed: number }> {
    const looked = await rows<{ id: string }>(
      manager,
      `select id
         from lanes
        where id > $1::uuid
        order by id
        limit $2::integer`,
      [after, limit],
    );
    const last = looked.length < limit ? null : (looked.at(-1)?.id ?? null);
    // The second statement sees what transactions that ended before its locks have put into the queue.
    const locked = await rows<{ id: string }>(
      manager,
      `select l.id
         from lanes l
        where l.id = any($1::uuid[])
          and not exists (${RUN_OF_LANE})
        order by l.id
          for update skip locked`,
      [plainArray(looked.map(({ id }) => id))],
    );
    if (locked.length === 0) return { last, removed: 0 };
    const removed = await execute(
      manager,
      `delete from lanes l
        where l.id = any($1::uuid[])
          and not exists (${RUN_OF_LANE})`,
      [plainArray(locked.map(({ id }) => id))],
    );
    return { last, removed };
  }
}

function distinct(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [Object.values(shape).join(), shape])).values()];
}

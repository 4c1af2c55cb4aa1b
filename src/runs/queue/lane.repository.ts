import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { LaneEntity } from '../../database/entities/queue.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, plainArray, rows, unnestRows } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import { REQUIRING_FIELDS, requirementsOf, type RequiringRun } from '../requirements.js';
import { QUEUE, RUNS } from '../storage/run-columns.js';
import { laneOf, PLAIN_LANE, requiredOf, type Lane } from './lane.js';

export const LANES = new EntityTable(LaneEntity);

/** How often rows are looked for that the removal of unused ones may take away meanwhile. */
const TRIES = 5;

/** A run of the lane `l`. */
const RUN_OF_LANE = `select from ${QUEUE.name} q where q.lane = l.id`;

/** The lanes that have runs which claims may read. @param except ids of lanes that are left out */
export function listActiveLanes(manager: EntityManager, except: readonly string[] = []): Promise<Lane[]> {
  return rows<Lane>(
    manager,
    `select ${LANES.select('l', ['id', 'required'])}
         from ${LANES.name} l
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
        `select ${LANES.select('l', ['id', 'required'])}
           from ${LANES.name} l
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
      `select ${RUNS.select('r', ['id', ...REQUIRING_FIELDS])}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])`,
      [plainArray([...runOf.values()].map(({ id }) => id))],
    );
    const needsOf = new Map(found.map((run) => [run.id, requirementsOf(run)]));
    const fresh = [...runOf].flatMap(([id, run]) => {
      const needs = needsOf.get(run.id);
      const { requirementId } = run;
      return needs === undefined
        ? []
        : [{ id, requirement_id: requirementId, required: requiredOf(run, needs) }];
    });
    const source = unnestRows({ id: 'uuid', requirement_id: 'uuid', required: 'json' }, fresh);
    await execute(
      manager,
      `insert into ${LANES.name} (${LANES.columns(['id', 'requirementId', 'required'])})
       select v.id, v.requirement_id, array(select json_array_elements_text(v.required))
         from ${source.sql}
        order by v.id
           on conflict (id) do nothing`,
      source.params,
    );
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
         from ${LANES.name}
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
         from ${LANES.name} l
        where l.id = any($1::uuid[])
          and not exists (${RUN_OF_LANE})
        order by l.id
          for update skip locked`,
      [plainArray(looked.map(({ id }) => id))],
    );
    if (locked.length === 0) return { last, removed: 0 };
    const removed = await execute(
      manager,
      `delete from ${LANES.name} l
        where l.id = any($1::uuid[])
          and not exists (${RUN_OF_LANE})`,
      [plainArray(locked.map(({ id }) => id))],
    );
    return { last, removed };
  }
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { RunRequirementsEntity } from '../../database/entities/restricted-queue.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, plainArray, rows, unnestRows } from '../../database/sql/sql.js';
import type { Run, RunRecord } from '../machine/run.js';
import { requirementList, requirementsOf } from '../requirements.js';
import { RESTRICTED, RUNS } from '../storage/run-columns.js';

export const REQUIREMENTS = new EntityTable(RunRequirementsEntity);

/** `requirement_id` of a run without requirements, which has no row. */
export const NO_REQUIREMENTS = '00000000-0000-0000-0000-000000000000';

/** Rows led by one tag or capability that are counted when a new row chooses its lead. */
const MAX_LED = 100;

/** How often rows are looked for that the removal of unused ones may take away meanwhile. */
const TRIES = 5;

/** SQL of the table `run_requirements`: the distinct requirements of the runs in the restricted queue. */
@Injectable()
export class RunRequirementsRepository {
  /**
   * Makes sure that the requirements of these stored runs are there, and stay until the transaction ends. Locks rows in the
   * order of their ids; call it before keys are locked.
   */
  async ensure(manager: EntityManager, runs: readonly Run[]): Promise<void> {
    const runOf = new Map(
      runs.flatMap(({ id, requirementId }) => (requirementId === null ? [] : [[requirementId, id]])),
    );
    if (runOf.size === 0) return;
    const ids = [...runOf.keys()].toSorted();
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const kept = await rows<{ id: string }>(
        manager,
        `select id
           from ${REQUIREMENTS.name}
          where id = any($1::uuid[])
          order by id
            for key share`,
        [plainArray(ids)],
      );
      if (kept.length === ids.length) return;
      const present = new Set(kept.map(({ id }) => id));
      await this.#insert(
        manager,
        ids.flatMap((id) => (present.has(id) ? [] : (runOf.get(id) ?? []))),
      );
    }
    throw new Error('the requirements of a run were removed while it entered the queue');
  }

  /** @param runIds for each new row, a run that has the requirements */
  async #insert(manager: EntityManager, runIds: readonly string[]): Promise<void> {
    const found = await rows<Pick<RunRecord, 'requirementId' | 'selector' | 'container'>>(
      manager,
      `select ${RUNS.select('r', ['requirementId', 'selector', 'container'])}
         from ${RUNS.name} r
        where r.id = any($1::uuid[])`,
      [plainArray(runIds)],
    );
    const source = unnestRows(
      { id: 'uuid', required: 'json' },
      found.map(({ requirementId, selector, container }) => ({
        id: requirementId,
        required: requirementList(requirementsOf(selector, container)),
      })),
      2,
    );
    await execute(
      manager,
      `with fresh as materialized (
         select v.id, array(select json_array_elements_text(v.required)) as required
           from ${source.sql}
       ),
       element as materialized (
         select e.name, count(*) + (
                  select count(*)
                    from (select from ${REQUIREMENTS.name} r where r.lead = e.name limit $1::integer) led
                ) as leads
           from fresh f
          cross join unnest(f.required) as e (name)
          group by e.name
       )
       insert into ${REQUIREMENTS.name} (${REQUIREMENTS.columns(['id', 'required', 'lead'])})
       select f.id, f.required,
              (select e.name from element e where e.name = any(f.required) order by e.leads, e.name limit 1)
         from fresh f
        order by f.id
           on conflict (id) do nothing`,
      [MAX_LED, ...source.params],
    );
  }

  /**
   * Removes requirements that no run in the queue has, among those after an id. A run that enters the queue at the same time
   * keeps its own.
   * @returns the last id that was looked at; null: there are no more
   */
  async removeUnused(
    manager: EntityManager,
    after: string,
    limit: number,
  ): Promise<{ readonly last: string | null; readonly removed: number }> {
    const looked = await rows<{ id: string }>(
      manager,
      `select id
         from ${REQUIREMENTS.name}
        where id > $1::uuid
        order by id
        limit $2::integer`,
      [after, limit],
    );
    // The second statement sees what transactions that ended before its locks have put into the queue.
    const locked = await rows<{ id: string }>(
      manager,
      `select id
         from ${REQUIREMENTS.name} u
        where id = any($1::uuid[])
          and not exists (${runWith('u.id')})
        order by id
          for update skip locked`,
      [plainArray(looked.map(({ id }) => id))],
    );
    const removed =
      locked.length === 0
        ? 0
        : await execute(
            manager,
            `delete from ${REQUIREMENTS.name} u
              where id = any($1::uuid[])
                and not exists (${runWith('u.id')})`,
            [plainArray(locked.map(({ id }) => id))],
          );
    return { last: looked.length < limit ? null : (looked.at(-1)?.id ?? null), removed };
  }
}

/** A run of the queue with these requirements; each part has an index. */
function runWith(id: string): string {
  return `select from ${RESTRICTED.name} q where q.requirement_id = ${id} and q.avoided_worker is null
          union all
          select from ${RESTRICTED.name} q where q.requirement_id = ${id} and q.avoided_worker is not null`;
}

import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql.js';
import type { RunEntity } from '../../database/entities/run.entity.js';
import { RECORD_COLUMNS, RUNS } from '../storage/run-columns.js';
import { RUN_STATES } from '../machine/run-state.js';
import { CREATED_BOUNDS, type CreatedBound, type RunFilter } from './run-filter.js';

/** A place in the list: the run's time of creation, then its id. */
export interface RunPlace {
  readonly createdAt: Date;
  readonly id: string;
}

/** Where a walk through the list begins, and whether it goes to older or to newer runs. */
export interface RunWalk {
  /** Left out of the walk; null: the end of the list that lies behind. */
  readonly place: RunPlace | null;
  readonly direction: 'older' | 'newer';
}

const OPERATORS: Record<CreatedBound, string> = { gte: '>=', lte: '<=', gt: '>', lt: '<' };

const KEEPS: Record<CreatedBound, (time: Date, bound: Date) => boolean> = {
  gte: (time, bound) => time >= bound,
  lte: (time, bound) => time <= bound,
  gt: (time, bound) => time > bound,
  lt: (time, bound) => time < bound,
};

/** Bounds on the side that a walk comes from. */
const BEHIND: Record<RunWalk['direction'], readonly CreatedBound[]> = {
  older: ['lte', 'lt'],
  newer: ['gte', 'gt'],
};

/**
 * Holds for every run, and is the predicate of the index `runs_by_state`: a list that goes by a field as well does not
 * say it, so that the planner, which takes what is frequent for evenly spread, cannot read through a state instead of
 * going by the field's own index.
 */
const ONLY_BY_STATE = 'max_attempts > 0';

/** SQL of the list of runs. */
@Injectable()
export class RunListRepository {
  /** Where a run stands in the list, or null for an unknown id. */
  async findPlace(manager: EntityManager, id: string): Promise<RunPlace | null> {
    const [place] = await rows<RunPlace>(
      manager,
      `select ${RUNS.select('r', ['createdAt', 'id'])}
         from ${RUNS.name} r
        where r.id = $1::uuid`,
      [id],
    );
    return place ?? null;
  }

  /**
   * Runs that pass the filter, from the place on, walking to older or to newer ones; the place itself is left out.
   * The order is that of the walk.
   *
   * Every index that lists go by has the state before the time. A list of one state reads a stretch of one of them; a
   * list of all states reads the first of each state and merges them. So the cost goes by the limit, whatever the
   * table holds, for each filter alone and together with a state.
   */
  list(manager: EntityManager, filter: RunFilter, walk: RunWalk, limit: number): Promise<RunEntity[]> {
    const params: unknown[] = [];
    const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
    const fields = fieldConditions(filter, bind);
    const times = timeConditions(filter, walk, bind);
    const order = walk.direction === 'older' ? 'created_at desc, id desc' : 'created_at, id';
    const most = bind(limit, 'integer');
    const stretch = (columns: string, state: string): string =>
      `select ${columns}
         from ${RUNS.name} r
        where ${[`r.state = ${state}`, ...fields, ...times].join(' and ')}
        order by ${order}
        limit ${most}`;
    if (filter.state !== undefined)
      return rows(manager, stretch(RECORD_COLUMNS, bind(filter.state, 'text')), params);
    return rows(
      manager,
      `select ${RECORD_COLUMNS}
         from (
           select stretch.id as page_id
             from unnest(${bind(RUN_STATES, 'text[]')}) as s (state)
            cross join lateral (
              ${stretch('r.created_at, r.id', 's.state')}
            ) stretch
            order by ${order}
            limit ${most}
         ) page
         join ${RUNS.name} r on r.id = page_id
        order by ${order}`,
      params,
    );
  }
}

type Bind = (value: unknown, type: string) => string;

/** Conditions on what was said at the creation; without any, the mark of the index that is there for this case alone. */
function fieldConditions({ definitionId, image, topic }: RunFilter, bind: Bind): string[] {
  const fields = { definition_id: definitionId, image, topic };
  const conditions = Object.entries(fields).flatMap(([column, value]) =>
    value === undefined ? [] : [`${column} = ${bind(value, 'text')}`],
  );
  return conditions.length > 0 ? conditions : [ONLY_BY_STATE];
}

/**
 * Of the conditions on the side that the walk comes from, only the tightest: an index scan begins at one of them, not
 * necessarily that one, and reads in vain up to the others.
 */
function timeConditions({ created }: RunFilter, { place, direction }: RunWalk, bind: Bind): string[] {
  const given = CREATED_BOUNDS.flatMap((name) => {
    const time = created[name];
    return time ? [{ name, time, isBehind: BEHIND[direction].includes(name) }] : [];
  });
  const bounds = given.filter(
    ({ name, time, isBehind }) => !(place && isBehind && KEEPS[name](place.createdAt, time)),
  );
  const conditions = bounds.map(
    ({ name, time }) => `created_at ${OPERATORS[name]} ${bind(time.toISOString(), 'timestamptz')}`,
  );
  if (!place || bounds.some(({ isBehind }) => isBehind)) return conditions;
  const at = `(${bind(place.createdAt.toISOString(), 'timestamptz')}, ${bind(place.id, 'uuid')})`;
  return [...conditions, `(created_at, id) ${direction === 'older' ? '<' : '>'} ${at}`];
}

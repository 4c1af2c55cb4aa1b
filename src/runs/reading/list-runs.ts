import type { EntityManager } from 'typeorm';
import { RunTermEntity } from '../../database/entities/run.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows, type Statement } from '../../database/sql/sql.js';
import type { RunRecord } from '../machine/run.js';
import { isInExecution, isTerminal, TERMINAL_STATES } from '../machine/run-state.js';
import { EXECUTIONS, RECORD_COLUMNS, RUN_BYTES, RUNS } from '../storage/run-columns.js';
import {
  fieldConditions,
  type ListDriver,
  createdConditions,
  createdRange,
  endedConditions,
  endedSince,
  reachesBefore,
  within,
  type Bind,
  type WalkStart,
} from './list-conditions.js';
import { stateOf, statesOf, type RunFilter } from './run-filter.js';

export interface RunWalk extends WalkStart {
  readonly limit: number;
  /** Bytes of the runs without their events; the first is read whatever its size. */
  readonly maxBytes: number;
}

export type ListedRun = RunRecord & {
  /** How many runs were found, up to one more than the limit. */
  readonly found: string;
};

/**
 * True for every run, and the predicate of the index `runs_by_outcome`. A list with a field leaves it out, so that the
 * planner, which assumes that frequent values are evenly spread, uses the index of the field.
 */
const ONLY_BY_OUTCOME = 'max_attempts > 0';

/** Runs that took longer have an entry in the index `runs_by_end`, with the condition `TOOK_LONG`. In milliseconds. */
const SHORT_MS = 10_000;
const TOOK_LONG = `r.finished_at - r.created_at > interval '10 seconds'`;

const TERMS = new EntityTable(RunTermEntity);

/**
 * Runs that pass the filter, in the order of the walk. Every index of the list has the outcome before the time: a list of
 * one outcome reads a range of one index, a list of all merges the first runs of each outcome. So the cost depends on
 * the limit and not on the size of the table. A list of a state of execution walks through `executions`, a list by terms reads
 * the ranges of one group of them; they look up the other conditions for each run. A page ends early where its runs come to
 * more bytes than it may have.
 */
export function listRuns(
  manager: EntityManager,
  filter: RunFilter,
  walk: RunWalk,
  driver: ListDriver,
): Promise<ListedRun[]> {
  const params: unknown[] = [];
  const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
  const found = foundBy(filter, walk, driver, bind);
  return found === null
    ? Promise.resolve([])
    : readFound(manager, found, bind(walk.maxBytes, 'bigint'), params);
}

/** The newest runs whose ids lie between two, by the primary key. */
export function listRunsById(
  manager: EntityManager,
  [first, last]: readonly [string, string],
  { limit, maxBytes }: Pick<RunWalk, 'limit' | 'maxBytes'>,
): Promise<ListedRun[]> {
  const runs = `select * from ${RUNS.name} where id between $1::uuid and $2::uuid order by id desc limit $3::integer + 1`;
  const found = { runs, order: 'id desc', limit: '$3::integer' };
  return readFound(manager, found, '$4::bigint', [first, last, limit, maxBytes]);
}

/** The runs that were found, up to the limit and so many bytes. @param maxBytes place of the parameter */
function readFound(
  manager: EntityManager,
  { runs, order, limit }: Omit<Found, 'ids'>,
  maxBytes: string,
  params: unknown[],
): Promise<ListedRun[]> {
  return rows(
    manager,
    `select ${RECORD_COLUMNS}, r.found
         from (
           select r.*,
                  count(*) over () as found,
                  sum(${RUN_BYTES}) over walk as bytes_so_far,
                  row_number() over walk as nth
             from (${runs}) r
           window walk as (order by ${order} rows unbounded preceding)
         ) r
        where r.bytes_so_far <= ${maxBytes} or r.nth = 1
        order by ${order}
        limit ${limit}`,
    params,
  );
}

/** The ids of the newest runs that pass the filter, up to one more than the limit, as rows `id`. */
export function selectRunIds(filter: RunFilter, limit: number, driver: ListDriver): Statement {
  const params: unknown[] = [];
  const bind: Bind = (value, type) => `$${params.push(value)}::${type}`;
  const found = foundBy(filter, { place: null, direction: 'older', limit }, driver, bind);
  return { sql: found?.ids ?? 'select null::uuid as id where false', params };
}

/** SQL of what a walk finds, up to one more than its limit. */
interface Found {
  /** Rows of `runs`, in the order of the walk. */
  readonly runs: string;
  /** Rows `id`. */
  readonly ids: string;
  readonly order: string;
  /** Place of the limit. */
  readonly limit: string;
}

/** What the stretches of a list have in common. */
interface List {
  readonly filter: RunFilter;
  readonly walk: WalkStart;
  readonly reads: ListDriver['reads'];
  /** SQL of the conditions on the creation. */
  readonly times: readonly string[];
  readonly order: string;
  /** Place of the limit. */
  readonly limit: string;
  readonly bind: Bind;
}

/** A part of a list: the rows of a source that pass, in the order of the list. */
interface Stretch {
  /** SQL of rows `t` of created_at and id. */
  readonly source: string;
  readonly times: readonly string[];
  /** Groups of terms that are looked up for each row. */
  readonly groups: NonNullable<RunFilter['terms']>;
  /** SQL of conditions on its row of `runs r` that are looked up. */
  readonly fields: readonly string[];
}

/** @returns null: no run can pass the filter */
function foundBy(
  filter: RunFilter,
  walk: Omit<RunWalk, 'maxBytes'>,
  driver: ListDriver,
  bind: Bind,
): Found | null {
  const state = stateOf(filter);
  if (filter.state !== undefined && filter.state !== state) return null;
  const { workerId, ended, terms = [] } = filter;
  const isOpen = state !== undefined && !isTerminal(state);
  // Open runs have no end, and pending ones no worker.
  if ((isOpen && ended !== undefined) || (state === 'PENDING' && workerId !== undefined)) return null;
  const isExecuting = isOpen && isInExecution(state);
  const since = splitOf(filter, walk, driver);
  const times = createdConditions(within(createdRange(filter), { gte: since }), walk, bind);
  const order = walk.direction === 'older' ? 'created_at desc, id desc' : 'created_at, id';
  const limit = bind(walk.limit, 'integer');
  const list = { filter, walk, reads: driver.reads, times, order, limit, bind };
  if (state !== undefined && !isExecuting && terms.length === 0 && since === undefined) {
    const stretch = ofOutcome(bind(isOpen ? 'OPEN' : state, 'text'), list);
    return { runs: firstOf(stretch, list, 't.*'), ids: firstOf(stretch, list, 't.id'), order, limit };
  }
  // The index of workers has the runs that have ended.
  const isPartOpen = workerId !== undefined && statesOf(filter) === undefined && ended === undefined;
  const parts = [
    ...(isExecuting ? [] : [firstOfEachOutcome(list)]),
    ...(isExecuting || isPartOpen ? [firstOf(ofExecutions(list), list)] : []),
  ];
  const newer = `select created_at, id
             from (${parts.map((part) => `(${part})`).join(' union all ')}) stretch
            order by ${order}
            limit ${limit} + 1`;
  const page = since === undefined ? newer : inTurn(newer, firstOf(ofEnds(since, list), list), list);
  return {
    runs: `select r.*
         from (
           select id as page_id
             from (${page}) found
         ) page
         join ${RUNS.name} r on r.id = page_id
        order by ${order}`,
    ids: `select id from (${page}) page`,
    order,
    limit,
  };
}

/** The outcomes whose ranges a list walks through. */
function outcomesOf(filter: RunFilter): readonly string[] {
  const state = stateOf(filter);
  if (state !== undefined) return [isTerminal(state) ? state : 'OPEN'];
  const { workerId, ended, endedIn } = filter;
  if (endedIn !== undefined) return endedIn;
  return workerId === undefined && ended === undefined ? ['OPEN', ...TERMINAL_STATES] : TERMINAL_STATES;
}

/**
 * The time that divides a list of the runs that ended after a bound, a little before that bound. Those that were created later are found
 * in the order of the list; a walk on to the older ones would read all of history to find the few that ended so late.
 * @returns undefined: the walk does not come to the older ones, or few runs have the terms that it reads
 */
function splitOf(filter: RunFilter, walk: WalkStart, { reads, isRare }: ListDriver): Date | undefined {
  const since = endedSince(filter);
  if (since === undefined || (isRare && typeof reads === 'number')) return undefined;
  const split = new Date(since.getTime() - SHORT_MS);
  return reachesBefore(split, filter.created, walk) ? split : undefined;
}

/** SQL of the first rows of two parts of a list, of which the second is read only as far as the first has too few. */
function inTurn(newer: string, older: string, { walk, order, limit }: List): string {
  const [first, second] = walk.direction === 'older' ? [newer, older] : [older, newer];
  return `with head as (${first}),
         tail as (
           select *
             from (${second}) t
            order by ${order}
            limit ${limit} + 1 - (select count(*) from head)
         )
         select created_at, id from head
         union all
         select created_at, id from tail
          order by ${order}`;
}

/** SQL of the first rows of the stretches of each outcome, and of each of several terms: a run has one term of a group. */
function firstOfEachOutcome(list: List): string {
  const { filter, reads, bind } = list;
  const outcomes = bind(outcomesOf(filter), 'text[]');
  const group = typeof reads === 'number' ? filter.terms?.[reads] : undefined;
  const isSeveral = group !== undefined && group.length > 1;
  const stretch =
    group === undefined
      ? ofOutcome('s.outcome', list)
      : ofTerm(isSeveral ? 'd.term' : bind(group[0], 'text'), group, list);
  return `select stretch.created_at, stretch.id
                 from unnest(${outcomes}) as s (outcome)
                 ${isSeveral ? `cross join unnest(${bind(group, 'text[]')}) as d (term)` : ''}
                 cross join lateral (
                   ${firstOf(stretch, list)}
                 ) stretch`;
}

/** Runs of an outcome, by an index of it. */
function ofOutcome(outcome: string, { filter, reads, times, bind }: List): Stretch {
  const fields = fieldConditions(filter, bind);
  const ofIndex = fields.length > 0 && reads !== 'outcome' ? [] : [ONLY_BY_OUTCOME];
  const conditions = [`r.outcome = ${outcome}`, ...ofIndex, ...fields, ...otherConditions(filter, bind)];
  return { source: ofRuns(conditions), times, groups: filter.terms ?? [], fields: [] };
}

/** Runs of the outcome `s.outcome` with a term of a group. */
function ofTerm(term: string, group: readonly string[], { filter, times, bind }: List): Stretch {
  return {
    source: `select created_at, run_id as id from ${TERMS.name} where term = ${term} and outcome = s.outcome`,
    times,
    groups: filter.terms?.filter((other) => other !== group) ?? [],
    fields: [...fieldConditions(filter, bind), ...otherConditions(filter, bind)],
  };
}

/** Runs in execution, of the filter's worker if it has one. */
function ofExecutions({ filter, times, bind }: List): Stretch {
  const { workerId, ...others } = filter;
  const ofWorker = workerId === undefined ? '' : ` where worker_id = ${bind(workerId, 'text')}`;
  return {
    source: `select created_at, run_id as id from ${EXECUTIONS.name}${ofWorker}`,
    times,
    groups: filter.terms ?? [],
    fields: [...fieldConditions(others, bind), ...otherConditions(others, bind)],
  };
}

/** Runs that were created before a time, by the index of ends, and sorted. */
function ofEnds(since: Date, { filter, walk, bind }: List): Stretch {
  const conditions = [
    `r.outcome = any(${bind(outcomesOf(filter), 'text[]')})`,
    TOOK_LONG,
    ...fieldConditions(filter, bind),
    ...otherConditions(filter, bind),
    ...createdConditions(within(createdRange(filter), { lt: since }), walk, bind),
  ];
  return { source: `${ofRuns(conditions)} offset 0`, times: [], groups: filter.terms ?? [], fields: [] };
}

function ofRuns(conditions: readonly string[]): string {
  return `select r.* from ${RUNS.name} r where ${conditions.join(' and ')}`;
}

/** SQL of the conditions on `runs r` beside those on fields: the state of an open run, which its outcome does not tell, and the end. */
function otherConditions(filter: RunFilter, bind: Bind): string[] {
  const state = stateOf(filter);
  const ofState = state === undefined || isTerminal(state) ? [] : [`r.state = ${bind(state, 'text')}`];
  return [...ofState, ...endedConditions(filter, bind)];
}

/**
 * SQL of the first rows of a stretch. `offset 0` keeps the planner from reading all runs that fulfil a condition instead of looking
 * up those of the source, one by one.
 */
function firstOf(
  { source, times, groups, fields }: Stretch,
  { order, limit, bind }: List,
  columns = 't.created_at, t.id',
): string {
  const lookUps = groups.map(
    (group) => `select from ${TERMS.name} o where o.run_id = t.id and o.term = any(${bind(group, 'text[]')})`,
  );
  if (fields.length > 0)
    lookUps.push(`select from ${RUNS.name} r where r.id = t.id and ${fields.join(' and ')}`);
  return `select ${columns}
                from (${source}) t
                ${lookUps.map((one, n) => `cross join lateral (${one} offset 0) as match${n}`).join(' ')}
               ${times.length > 0 ? `where ${times.join(' and ')}` : ''}
               order by ${order}
               limit ${limit} + 1`;
}

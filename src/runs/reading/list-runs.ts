import type { EntityManager } from 'typeorm';
import { RunTermEntity } from '../../database/entities/run-term.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows, type Statement } from '../../database/sql/sql.js';
import type { RunRecord } from '../machine/run.js';
import { isInExecution, isTerminal, TERMINAL_STATES } from '../machine/run-state.js';
import { EXECUTIONS, RECORD_COLUMNS, RUN_BYTES, RUNS } from '../storage/run-columns.js';
import { fieldConditions, type ListDriver } from './list-driver.js';
import {
  createdConditions,
  createdRange,
  endedConditions,
  endedSince,
  reachesBefore,
  within,
  type Bind,
  type WalkStart,
} from './list-times.js';
import { stateOf, type RunFilter } from './run-filter.js';

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
  if (found === null) return Promise.resolve([]);
  const { runs, order, limit } = found;
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
        where r.bytes_so_far <= ${bind(walk.maxBytes, 'bigint')} or r.nth = 1
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

/** @returns null: no run can pass the filter */
function foundBy(
  filter: RunFilter,
  walk: Omit<RunWalk, 'maxBytes'>,
  driver: ListDriver,
  bind: Bind,
): Found | null {
  const state = stateOf(filter);
  if (filter.state !== undefined && filter.state !== state) return null;
  const { workerId, ended, terms: groups = [] } = filter;
  const isOpen = state !== undefined && !isTerminal(state);
  // Open runs have no end, and pending ones no worker.
  if ((isOpen && ended !== undefined) || (state === 'PENDING' && workerId !== undefined)) return null;
  const isExecuting = isOpen && isInExecution(state);
  const { reads } = driver;
  const leading = !isExecuting && typeof reads === 'number' ? groups[reads] : undefined;
  const ofAnyWorker = { ...filter, workerId: undefined };
  const fields = fieldConditions(isExecuting ? ofAnyWorker : filter, bind);
  // The predicate of the index of all runs, for a list without a field that has an index.
  const ofIndex = fields.length > 0 && reads !== 'outcome' ? [] : [ONLY_BY_OUTCOME];
  // An outcome tells the states of ended runs only.
  if (isOpen) fields.push(`r.state = ${bind(state, 'text')}`);
  fields.push(...endedConditions(filter, bind));
  const since = splitOf(filter, walk, driver);
  const created = createdRange(filter);
  const times = createdConditions(within(created, { gte: since }), walk, bind);
  const lookedUp = groups.filter((group) => group !== leading).map((group) => bind(group, 'text[]'));
  const order = walk.direction === 'older' ? 'created_at desc, id desc' : 'created_at, id';
  const limit = bind(walk.limit, 'integer');
  const ofOutcome = (columns: string, outcome: string): string =>
    `select ${columns}
         from ${RUNS.name} r
        where ${[`r.outcome = ${outcome}`, ...ofIndex, ...fields, ...times].join(' and ')}
        order by ${order}
        limit ${limit} + 1`;
  if (state !== undefined && !isExecuting && groups.length === 0 && since === undefined) {
    const outcome = bind(isTerminal(state) ? state : 'OPEN', 'text');
    return { runs: ofOutcome('r.*', outcome), ids: ofOutcome('r.id', outcome), order, limit };
  }
  const outcomes = bind(outcomesOf(filter), 'text[]');
  const lookUp = { fields, times, order, limit };
  // A run has one term of a group, so no run is found twice.
  const several = leading !== undefined && leading.length > 1 ? leading : undefined;
  const stretch = (): string => {
    if (isExecuting) return lookedUpStretch(executing(workerId, bind), lookedUp, lookUp);
    if (leading !== undefined) {
      const source = ofTerm(several === undefined ? bind(leading[0], 'text') : 'd.term');
      return lookedUpStretch(source, lookedUp, lookUp);
    }
    if (groups.length === 0) return ofOutcome('r.created_at, r.id', 's.outcome');
    const source = `select r.created_at, r.id from ${RUNS.name} r where ${['r.outcome = s.outcome', ...ofIndex, ...fields].join(' and ')}`;
    return lookedUpStretch(source, lookedUp, { ...lookUp, fields: [] });
  };
  const allGroups = (): string[] => groups.map((group) => bind(group, 'text[]'));
  // The index of workers has the runs that have ended.
  const ofOpen = (): string => {
    const open = { ...lookUp, fields: fieldConditions(ofAnyWorker, bind) };
    return ` union all (${lookedUpStretch(executing(workerId, bind), allGroups(), open)})`;
  };
  const isPartOpen = workerId !== undefined && state === undefined && ended === undefined;
  const stretches = `select stretch.created_at, stretch.id
             from (
               select stretch.created_at, stretch.id
                 from unnest(${outcomes}) as s (outcome)
                 ${several === undefined ? '' : `cross join unnest(${bind(several, 'text[]')}) as d (term)`}
                 cross join lateral (
                   ${stretch()}
                 ) stretch${isPartOpen ? ofOpen() : ''}
             ) stretch
            order by ${order}
            limit ${limit} + 1`;
  // Found by the index of ends, and sorted.
  const createdBefore = (time: Date): string => {
    const conditions = [
      `r.outcome = any(${outcomes})`,
      TOOK_LONG,
      ...fields,
      ...createdConditions(within(created, { lt: time }), walk, bind),
    ];
    const source = `select r.created_at, r.id from ${RUNS.name} r where ${conditions.join(' and ')} offset 0`;
    return lookedUpStretch(source, allGroups(), { ...lookUp, fields: [], times: [] });
  };
  const page =
    since === undefined ? stretches : inTurn(stretches, createdBefore(since), walk, { order, limit });
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
  const { workerId, ended } = filter;
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
function inTurn(
  newer: string,
  older: string,
  { direction }: WalkStart,
  { order, limit }: Pick<LookUp, 'order' | 'limit'>,
): string {
  const [first, second] = direction === 'older' ? [newer, older] : [older, newer];
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

interface LookUp {
  readonly fields: readonly string[];
  readonly times: readonly string[];
  readonly order: string;
  readonly limit: string;
}

/** Runs in execution, of one worker if it is given, as rows of created_at and id. */
function executing(workerId: string | undefined, bind: Bind): string {
  const ofWorker = workerId === undefined ? '' : ` where worker_id = ${bind(workerId, 'text')}`;
  return `select created_at, run_id as id from ${EXECUTIONS.name}${ofWorker}`;
}

/** Runs of the outcome `s.outcome` with the term, as rows of created_at and id. */
function ofTerm(term: string): string {
  return `select created_at, run_id as id from ${TERMS.name} where term = ${term} and outcome = s.outcome`;
}

/**
 * SQL of the first runs of a source that have a term of each group and fulfil the conditions on fields of `runs r`. `offset 0` keeps the
 * planner from reading all runs that fulfil a condition instead of looking up those of the source, one by one.
 */
function lookedUpStretch(
  source: string,
  groups: readonly string[],
  { fields, times, order, limit }: LookUp,
): string {
  const lookUps = [
    ...groups.map((terms) => `select from ${TERMS.name} o where o.run_id = t.id and o.term = any(${terms})`),
    ...(fields.length > 0
      ? [`select from ${RUNS.name} r where r.id = t.id and ${fields.join(' and ')}`]
      : []),
  ];
  return `select t.created_at, t.id
                from (${source}) t
                ${lookUps.map((one, n) => `cross join lateral (${one} offset 0) as match${n}`).join(' ')}
               ${times.length > 0 ? `where ${times.join(' and ')}` : ''}
               order by ${order}
               limit ${limit} + 1`;
}

import type { EntityManager } from 'typeorm';
import { RunTermEntity } from '../../database/entities/run-term.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { rows, type Statement } from '../../database/sql/sql.js';
import type { RunRecord } from '../machine/run.js';
import { isInExecution, isTerminal, TERMINAL_STATES, type RunState } from '../machine/run-state.js';
import { EXECUTIONS, RECORD_COLUMNS, RUN_BYTES, RUNS } from '../storage/run-columns.js';
import { endedConditions, fieldConditions, OPERATORS, type Bind, type ListDriver } from './list-driver.js';
import { stateOf, TIME_BOUNDS, type RunFilter, type TimeBound, type TimeRange } from './run-filter.js';

export type RunPlace = Pick<RunRecord, 'createdAt' | 'id'>;

export interface RunWalk {
  /** The walk starts after this run; null: at the end of the list. */
  readonly place: RunPlace | null;
  readonly direction: 'older' | 'newer';
  readonly limit: number;
  /** Bytes of the runs without their events; the first is read whatever its size. */
  readonly maxBytes: number;
}

export type ListedRun = RunRecord & {
  /** How many runs were found, up to one more than the limit. */
  readonly found: string;
};

/** The conditions on the time of creation: the direction of the walks that start at the bound. */
const BOUNDS = {
  gte: { direction: 'newer', keeps: (time: Date, bound: Date) => time >= bound },
  lte: { direction: 'older', keeps: (time: Date, bound: Date) => time <= bound },
  gt: { direction: 'newer', keeps: (time: Date, bound: Date) => time > bound },
  lt: { direction: 'older', keeps: (time: Date, bound: Date) => time < bound },
} as const satisfies Record<TimeBound, object>;

/**
 * True for every run, and the predicate of the index `runs_by_outcome`. A list with a field leaves it out, so that the
 * planner, which assumes that frequent values are evenly spread, uses the index of the field.
 */
const ONLY_BY_OUTCOME = 'max_attempts > 0';

const TERMS = new EntityTable(RunTermEntity);

/**
 * Runs that pass the filter, in the order of the walk. Every index of the list has the outcome before the time: a list of
 * one outcome reads a range of one index, a list of all merges the first runs of each outcome. So the cost depends on
 * the limit and not on the size of the table. A list of a state of execution walks through `executions`, a list by terms reads
 * the ranges of one group of them; they look up the other conditions for each run. A page ends early where its runs come to
 * more bytes than it may have.
 * @param driver what the walk reads; by default the first group of terms
 */
export function listRuns(
  manager: EntityManager,
  filter: RunFilter,
  walk: RunWalk,
  driver: ListDriver = 0,
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
  const leading = !isExecuting && typeof driver === 'number' ? groups[driver] : undefined;
  const isByWorker = workerId !== undefined && !isExecuting && leading === undefined;
  const others = { ...filter, workerId: undefined };
  const fields = fieldConditions(isByWorker ? filter : others, bind);
  // The predicate of the index of all runs, for a list without a field that has an index.
  const ofIndex = fields.length > 0 && driver !== 'outcome' ? [] : [ONLY_BY_OUTCOME];
  // An outcome tells the states of ended runs only.
  if (isOpen) fields.push(`r.state = ${bind(state, 'text')}`);
  if (leading !== undefined && workerId !== undefined) fields.push(`r.worker_id = ${bind(workerId, 'text')}`);
  if (ended !== undefined) fields.push(...endedConditions(ended, bind));
  const times = timeConditions(filter, walk, bind);
  const lookedUp = groups.filter((group) => group !== leading).map((group) => bind(group, 'text[]'));
  const order = walk.direction === 'older' ? 'created_at desc, id desc' : 'created_at, id';
  const limit = bind(walk.limit, 'integer');
  const ofOutcome = (columns: string, outcome: string): string =>
    `select ${columns}
         from ${RUNS.name} r
        where ${[`r.outcome = ${outcome}`, ...ofIndex, ...fields, ...times].join(' and ')}
        order by ${order}
        limit ${limit} + 1`;
  const lookUp = { fields, times, order, limit };
  // A run has one term of a group, so no run is found twice.
  const several = leading !== undefined && leading.length > 1 ? leading : undefined;
  const stretch = (): string => {
    if (isExecuting) return lookedUpStretch(executing(workerId, bind), lookedUp, lookUp);
    if (leading !== undefined) {
      const source = ofTerm(several === undefined ? bind(leading[0], 'text') : 'd.term');
      return lookedUpStretch(source, lookedUp, lookUp);
    }
    if (driver === 'ended') {
      const ofState = state === undefined ? [] : [`r.outcome = ${bind(state, 'text')}`];
      const source = `select r.created_at, r.id from ${RUNS.name} r where ${[...fields, ...ofState].join(' and ')} offset 0`;
      return lookedUpStretch(source, lookedUp, { ...lookUp, fields: [] });
    }
    if (groups.length === 0) return ofOutcome('r.created_at, r.id', 's.outcome');
    const source = `select r.created_at, r.id from ${RUNS.name} r where ${['r.outcome = s.outcome', ...ofIndex, ...fields].join(' and ')}`;
    return lookedUpStretch(source, lookedUp, { ...lookUp, fields: [] });
  };
  if (state !== undefined && !isExecuting && groups.length === 0 && driver !== 'ended') {
    const outcome = bind(outcomeOf(state), 'text');
    return { runs: ofOutcome('r.*', outcome), ids: ofOutcome('r.id', outcome), order, limit };
  }
  const stretches = `select stretch.created_at, stretch.id
             from unnest(${bind(outcomesOf(filter, driver, isByWorker), 'text[]')}) as s (outcome)
             ${several === undefined ? '' : `cross join unnest(${bind(several, 'text[]')}) as d (term)`}
             cross join lateral (
               ${stretch()}
             ) stretch`;
  const isPartOpen = isByWorker && state === undefined && ended === undefined;
  const ofOpen = (): string => {
    const open = { ...lookUp, fields: fieldConditions(others, bind) };
    return ` union all (${lookedUpStretch(executing(workerId, bind), lookedUp, open)})`;
  };
  const page = `select id as page_id
           from (${stretches}${isPartOpen ? ofOpen() : ''}) stretch
          order by ${order}
          limit ${limit} + 1`;
  return {
    runs: `select r.*
         from (
           ${page}
         ) page
         join ${RUNS.name} r on r.id = page_id
        order by ${order}`,
    ids: `select page_id as id from (${page}) page`,
    order,
    limit,
  };
}

function outcomeOf(state: RunState): string {
  return isTerminal(state) ? state : 'OPEN';
}

/** The outcomes whose ranges a list walks through: one for a walk that does not look at them. */
function outcomesOf(filter: RunFilter, driver: ListDriver, isByWorker: boolean): readonly string[] {
  const state = stateOf(filter);
  if (state !== undefined) return [outcomeOf(state)];
  if (driver === 'ended') return ['any'];
  return filter.ended !== undefined || isByWorker ? TERMINAL_STATES : ['OPEN', ...TERMINAL_STATES];
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

/**
 * Of the conditions on the side where the walk starts, only the tightest: an index scan starts at any of them and would
 * read rows in vain up to the tightest.
 */
function timeConditions(
  filter: RunFilter,
  { place, direction }: Omit<RunWalk, 'maxBytes'>,
  bind: Bind,
): string[] {
  const created = createdRange(filter);
  const given = TIME_BOUNDS.flatMap((name) => {
    const time = created[name];
    return time ? [{ name, time, isBehind: BOUNDS[name].direction === direction }] : [];
  });
  const bounds = given.filter(
    ({ name, time, isBehind }) => !(place && isBehind && BOUNDS[name].keeps(place.createdAt, time)),
  );
  const conditions = bounds.map(
    ({ name, time }) => `created_at ${OPERATORS[name]} ${bind(time.toISOString(), 'timestamptz')}`,
  );
  if (!place || bounds.some(({ isBehind }) => isBehind)) return conditions;
  const at = `(${bind(place.createdAt.toISOString(), 'timestamptz')}, ${bind(place.id, 'uuid')})`;
  return [...conditions, `(created_at, id) ${direction === 'older' ? '<' : '>'} ${at}`];
}

/** When runs that pass were created: not after their end. */
function createdRange({ created, ended = {} }: RunFilter): TimeRange {
  const upper = (['lt', 'lte'] as const).flatMap((bound) => {
    const times = [created[bound], ended[bound]].flatMap((time) => time?.getTime() ?? []);
    return times.length === 0 ? [] : [[bound, new Date(Math.min(...times))] as const];
  });
  return { ...created, ...Object.fromEntries(upper) };
}
